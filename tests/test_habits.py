"""What people do with scikit-learn classifiers gives the same answers: threads, forks, copies, cross-validation."""

import io
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from toy_pictures import Eye, labelled

from dmn4 import FewShotClassifier

QUERIES = labelled(4, seed=7)[0]


@pytest.fixture(scope="module")
def fitted() -> FewShotClassifier:
    return FewShotClassifier(backbone=Eye()).fit(*labelled(3))


def test_eight_threads_get_the_same_answers(fitted):
    expected = fitted.predict_proba(QUERIES)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: fitted.predict_proba(QUERIES), range(16)):
            assert np.array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_fit_gives_the_same_answers(fitted):
    expected = fitted.predict_proba(QUERIES)
    out, into = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: into.send(fitted.predict_proba(QUERIES)))
    process.start()
    assert out.poll(60), "the forked process hangs"
    assert np.array_equal(out.recv(), expected)
    process.join()


def test_copies_by_pickle_and_joblib_give_the_same_answers(fitted):
    expected, file = fitted.predict_proba(QUERIES), io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(file)):
        assert np.array_equal(copy.predict_proba(QUERIES), expected)
        assert copy.classes_.tolist() == fitted.classes_.tolist()


@pytest.mark.slow
def test_cross_validation_in_two_processes_scores_the_same():
    images, labels = np.empty(12, object), np.array(labelled(4)[1])
    images[:] = labelled(4)[0]
    classifier = FewShotClassifier(backbone=Eye())
    alone, shared = (cross_val_score(classifier, images, labels, cv=2, n_jobs=jobs) for jobs in (1, 2))
    assert alone.tolist() == shared.tolist()
