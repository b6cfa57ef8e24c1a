"""The two interfaces over HTTP: connexion's application and the layers around it."""

import warnings

# connexion imports a test client that is not used here; its deprecation warnings do not matter.
warnings.filterwarnings("ignore", message="Using `httpx` with `starlette.testclient`")
