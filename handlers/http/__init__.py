"""The two interfaces over HTTP: connexion's application and the layers around it."""

import warnings

# connexion imports a test client that is not used here; what that client deprecates concerns nobody.
warnings.filterwarnings("ignore", message="Using `httpx` with `starlette.testclient`")
