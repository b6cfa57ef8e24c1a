from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.sdks.running import JOURNEYS, SURFACES, TWENTY_DIGITS, Running, cached, run, seen

pytestmark = pytest.mark.sdks

# What the Java clients need, in the versions of the build files that are generated with them.
JARS = (
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
    "com.fasterxml.jackson.core:jackson-databind:2.21.6",
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.21.6",
    "com.google.code.findbugs:jsr305:3.0.2",
    "jakarta.annotation:jakarta.annotation-api:1.3.5",
    "org.apache.httpcomponents:httpmime:4.5.14",
    "org.openapitools:jackson-databind-nullable:0.2.12",
)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def _generate(running: Running, folder: Path, generator: str, surface: str, *options: str) -> None:
    """Generate the client of one document into `folder/surface`."""
    package = importlib.util.find_spec("openapi_generator_cli")
    if package is None or package.origin is None:
        pytest.skip("needs openapi-generator-cli")
    jar = Path(package.origin).parent / "openapi-generator.jar"
    source = ("-i", running.document(surface), "-o", surface)
    run([_program("java"), "-jar", jar, "generate", "-g", generator, *source, *options], cwd=folder)


def _jars() -> Path:
    """A folder with the jars, fetched once by Maven."""
    folder = cached("jars")
    if not (folder / "complete").exists():
        dependency = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
        project = (
            "<project><modelVersion>4.0.0</modelVersion><groupId>loyalty</groupId><artifactId>journey</artifactId>"
            f"<version>1</version><dependencies>{''.join(dependency.format(*jar.split(':')) for jar in JARS)}"
            "</dependencies></project>"
        )
        (folder / "pom.xml").write_text(project)
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        repository = f"-Dmaven.repo.local={cached('maven')}"
        run([_program("mvn"), "-q", "-B", repository, copy, "-DoutputDirectory=."], cwd=folder)
        (folder / "complete").touch()
    return folder


def test_its_java_clients_make_the_journey(running: Running, tmp_path: Path) -> None:
    javac, java = _program("javac"), _program("java")
    for surface in SURFACES:
        packages = f"apiPackage=loyalty.{surface}.api,modelPackage=loyalty.{surface}.model"
        properties = f"containerDefaultToNull=true,{packages},invokerPackage=loyalty.{surface}"
        _generate(running, tmp_path, "java", surface, "--library", "native", "--additional-properties", properties)
    classpath = f"{_jars()}/*"
    sources = [str(path) for surface in SURFACES for path in (tmp_path / surface / "src/main/java").rglob("*.java")]
    (tmp_path / "sources").write_text("\n".join(sources))
    journey = JOURNEYS / "OpenapiGeneratorJourney.java"
    run([javac, "-nowarn", "-encoding", "utf-8", "-d", "classes", "-cp", classpath, "@sources"], cwd=tmp_path)
    strict = [javac, "-Xlint:all", "-Werror", "-proc:none", "-encoding", "utf-8", "-d", "classes"]
    run([*strict, "-cp", os.pathsep.join(("classes", classpath)), journey], cwd=tmp_path)
    command = [java, "-cp", os.pathsep.join(("classes", classpath)), journey.stem]
    assert running.journey(command, cwd=tmp_path, decimal=TWENTY_DIGITS) == seen(decimal=TWENTY_DIGITS)
