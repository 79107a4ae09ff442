"""Why a picture gets its class: evidence as data, and drawn on pictures."""
