"""The text search configurations of PostgreSQL, by the language of a locale."""

from collections.abc import Iterable

from domain.content.collections import ContentCollection

SIMPLE = "simple"

# The configurations that every supported version of PostgreSQL has, from 15 on.
_BY_LANGUAGE = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


def language_of(locale: str) -> str:
    """The configuration for a locale such as `es-AR`; for other languages `simple`, which has no stems."""
    return _BY_LANGUAGE.get(locale.replace("_", "-").partition("-")[0].lower(), SIMPLE)


def languages_of(collection: ContentCollection, locales: Iterable[str]) -> dict[str, str]:
    """PostgreSQL's text search configuration for each locale.

    The default locale, an empty text, has the `language` of the collection.
    """
    return {locale: language_of(locale) if locale else collection.language for locale in locales}
