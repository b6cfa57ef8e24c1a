"""HTML of code blocks in colours: classes for comments, strings, numbers, names and words of the language."""

import html
import re

_STRING = r'"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'"
_SHELL_STRING = r'"(?:[^"\\]|\\.)*"' + r"|'[^']*'"
_NUMBER = r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.])"
_HASH = r"(?<!\S)#.*"
_JSON = (
    rf'(?P<name>"(?:[^"\\\n]|\\.)*"(?=\s*:))|(?P<string>{_STRING})|(?P<number>{_NUMBER})'
    r"|(?P<word>\b(?:true|false|null)\b)"
)
_SHELL = (
    rf"(?P<comment>{_HASH})|(?P<string>{_SHELL_STRING})|(?P<name>\$\w+|\$\{{\w+\}}|(?<![\w-])--?[a-zA-Z][\w-]*|^\w+(?==))"
    r"|(?P<word>^\s*(?:curl|loyalty|make|git|pip|docker|psql|export|cd|sudo|zcat|systemctl)\b)"
)
_PYTHON = (
    rf"(?P<comment>{_HASH})|(?P<string>{_STRING})|(?P<number>{_NUMBER})|(?P<word>\b(?:and|as|assert|class|def|else|"
    r"except|False|for|from|if|import|in|is|lambda|None|not|or|raise|return|True|try|while|with|yield)\b)"
)
_CEL = rf"(?P<comment>//.*)|(?P<string>{_STRING})|(?P<number>{_NUMBER})|(?P<word>\b(?:true|false|null|in)\b)"
_YAML = rf"(?P<comment>{_HASH})|(?P<name>(?<!\S)[\w.$/-]+(?=:(?:\s|$)))|(?P<string>{_STRING})|(?P<number>{_NUMBER})"
_INI = rf"(?P<comment>{_HASH})|(?P<word>^\[.*\]$)|(?P<name>^[\w.-]+(?=\s*=))"
_HTTP = rf"(?P<method>^(?:GET|POST|PUT|PATCH|DELETE)\b)|(?P<heading>^[\w-]+(?=: ))|{_JSON}"
_PATTERNS = {
    language: re.compile(pattern, re.M)
    for languages, pattern in (
        (("json",), _JSON),
        (("http",), _HTTP),
        (("sh", "bash"), _SHELL),
        (("python",), _PYTHON),
        (("cel",), _CEL),
        (("yaml",), _YAML),
        (("ini",), _INI),
    )
    for language in languages
}


def highlight(code: str, language: str) -> str:
    """The code as HTML, with colours if there are any for the language."""
    pattern = _PATTERNS.get(language)
    if pattern is None:
        return html.escape(code)
    parts = []
    end = 0
    for match in pattern.finditer(code):
        parts += [html.escape(code[end : match.start()]), f'<i class="{match.lastgroup}">{html.escape(match[0])}</i>']
        end = match.end()
    return "".join([*parts, html.escape(code[end:])])
