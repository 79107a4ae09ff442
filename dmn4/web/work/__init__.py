"""Work on what comes from outside: worker processes with limits on memory and time that can be killed."""
