"""The clients of openapi-generator for eight languages make the calls of the journey, if the toolchain is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import npm
from tests.sdks.running import (
    FIFTEEN_DIGITS,
    JOURNEYS,
    SURFACES,
    TWENTY_DIGITS,
    Running,
    download_folder,
    expected_results,
    go_variables,
    python,
    run,
)

pytestmark = pytest.mark.sdks

# What the Java clients need, in the versions of the build files that are generated with them.
JARS_FOR_JAVA = (
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
    "com.fasterxml.jackson.core:jackson-databind:2.21.6",
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.21.6",
    "com.google.code.findbugs:jsr305:3.0.2",
    "jakarta.annotation:jakarta.annotation-api:1.3.5",
    "org.apache.httpcomponents:httpmime:4.5.14",
    "org.openapitools:jackson-databind-nullable:0.2.12",
)
# The same for Kotlin, and its compiler.
JARS_FOR_KOTLIN = (
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.22.1",
    "com.fasterxml.jackson.module:jackson-module-kotlin:2.22.1",
    "com.squareup.okhttp3:okhttp-jvm:5.4.0",
    "org.jetbrains.kotlin:kotlin-compiler-embeddable:2.4.0",
    "org.jetbrains.kotlin:kotlin-reflect:2.4.0",
    # Else that of another package, which is older than the compiler can run with.
    "org.jetbrains.kotlin:kotlin-stdlib:2.4.0",
)
# Where Debian's package php-guzzlehttp-guzzle has the client that the generated code needs, with what loads it.
GUZZLE = Path("/usr/share/php/GuzzleHttp/autoload.php")
# The program that uses the Rust clients. It needs no TLS, for which they would need OpenSSL's headers.
CARGO = """\
[workspace]
members = ["integration", "administration"]

[package]
name = "journey"
version = "1.0.0"
edition = "2021"

[[bin]]
name = "journey"
path = "journey.rs"

[dependencies]
loyalty_administration = { path = "administration", default-features = false }
loyalty_integration = { path = "integration", default-features = false }
serde_json = { version = "1", features = ["raw_value"] }
tokio = { version = "1", features = ["macros", "rt"] }

[profile.dev]
debug = false
"""
STRICT_TYPESCRIPT = ("--strict", "--target", "es2022", "--lib", "es2022,dom")


def _program(name: str) -> str:
    """The path of a program; the test is skipped if it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


def _generate(running_server: Running, folder: Path, generator: str, surface: str, *options: str) -> None:
    """Generate the client of one document into `folder/surface`."""
    package = importlib.util.find_spec("openapi_generator_cli")
    if package is None or package.origin is None:
        pytest.skip("needs openapi-generator-cli")
    jar = Path(package.origin).parent / "openapi-generator.jar"
    source = ("-i", running_server.document(surface), "-o", surface)
    run([_program("java"), "-jar", jar, "generate", "-g", generator, *source, *options], cwd=folder)


def _jars(name: str, jars: Sequence[str]) -> str:
    """The class path of these jars, fetched once by Maven."""
    folder = download_folder(name)
    if not (folder / "complete").exists():
        dependency = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
        project = (
            "<project><modelVersion>4.0.0</modelVersion><groupId>loyalty</groupId><artifactId>journey</artifactId>"
            f"<version>1</version><dependencies>{''.join(dependency.format(*jar.split(':')) for jar in jars)}"
            "</dependencies></project>"
        )
        (folder / "pom.xml").write_text(project)
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        repository = f"-Dmaven.repo.local={download_folder('maven')}"
        run([_program("mvn"), "-q", "-B", repository, copy, "-DoutputDirectory=."], cwd=folder)
        (folder / "complete").touch()
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def test_the_python_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    for surface in SURFACES:
        package = f"loyalty_{surface}_client"
        _generate(running_server, tmp_path, "python", surface, "--additional-properties", f"packageName={package}")
        (tmp_path / package).symlink_to(tmp_path / surface / package)
    journey = JOURNEYS / "openapi_generator.py"
    results = running_server.journey(python(journey), cwd=tmp_path, decimal=FIFTEEN_DIGITS, PYTHONPATH=str(tmp_path))
    assert results == expected_results(decimal=FIFTEEN_DIGITS)


def test_the_typescript_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    node = npm.node()
    if node is None:
        pytest.skip("needs Node")
    modules = npm.install_packages("typescript@5.9.3")
    for surface in SURFACES:
        properties = ("--additional-properties", "importFileExtension=.js")
        _generate(running_server, tmp_path, "typescript-fetch", surface, *properties)
    (tmp_path / "package.json").write_text('{"type": "module"}\n')
    shutil.copy(JOURNEYS / "typescript_fetch.ts", tmp_path / "journey.ts")
    options = (*STRICT_TYPESCRIPT, "--module", "nodenext", "--outDir", "out")
    run([node, modules / "typescript/bin/tsc", *options, "journey.ts"], cwd=tmp_path)
    results = running_server.journey([node, "out/journey.js"], cwd=tmp_path, decimal=FIFTEEN_DIGITS)
    assert results == expected_results(decimal=FIFTEEN_DIGITS)


def test_the_go_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    go = _program("go")
    for surface in SURFACES:
        properties = f"packageName={surface},withGoMod=false,enumClassPrefix=true"
        options = ("--type-mappings", "number=float64", "--additional-properties", properties)
        _generate(running_server, tmp_path, "go", surface, *options)
        # Its own tests need packages that the client does not.
        shutil.rmtree(tmp_path / surface / "test", ignore_errors=True)
    (tmp_path / "go.mod").write_text("module journey\n\ngo 1.24\n")
    shutil.copy(JOURNEYS / "openapi_generator.go", tmp_path / "main.go")
    for command in (("mod", "tidy"), ("vet", "./..."), ("build", "-o", "journey", ".")):
        run([go, *command], cwd=tmp_path, **go_variables())
    results = running_server.journey([tmp_path / "journey"], cwd=tmp_path, decimal=FIFTEEN_DIGITS)
    assert results == expected_results(decimal=FIFTEEN_DIGITS)


def test_the_java_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    javac, java = _program("javac"), _program("java")
    for surface in SURFACES:
        packages = f"apiPackage=loyalty.{surface}.api,modelPackage=loyalty.{surface}.model"
        properties = f"containerDefaultToNull=true,{packages},invokerPackage=loyalty.{surface}"
        _generate(
            running_server, tmp_path, "java", surface, "--library", "native", "--additional-properties", properties
        )
    jars = _jars("jars", JARS_FOR_JAVA)
    sources = [str(path) for surface in SURFACES for path in (tmp_path / surface / "src/main/java").rglob("*.java")]
    (tmp_path / "sources").write_text("\n".join(sources))
    journey = JOURNEYS / "OpenapiGeneratorJourney.java"
    run([javac, "-nowarn", "-encoding", "utf-8", "-d", "classes", "-cp", jars, "@sources"], cwd=tmp_path)
    strict = [javac, "-Xlint:all", "-Werror", "-proc:none", "-encoding", "utf-8", "-d", "classes"]
    run([*strict, "-cp", os.pathsep.join(("classes", jars)), journey], cwd=tmp_path)
    command = [java, "-cp", os.pathsep.join(("classes", jars)), journey.stem]
    assert running_server.journey(command, cwd=tmp_path, decimal=TWENTY_DIGITS) == expected_results(
        decimal=TWENTY_DIGITS
    )


def test_the_kotlin_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    java = _program("java")
    for surface in SURFACES:
        properties = f"packageName=loyalty.{surface},serializationLibrary=jackson"
        _generate(running_server, tmp_path, "kotlin", surface, "--additional-properties", properties)
    jars = _jars("kotlin-jars", JARS_FOR_KOTLIN)
    journey = JOURNEYS / "OpenapiGeneratorJourney.kt"
    compiler = [java, "-cp", jars, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-no-stdlib", "-no-reflect"]
    sources = [f"{surface}/src/main/kotlin" for surface in SURFACES]
    run([*compiler, "-nowarn", "-d", "classes", "-cp", jars, *sources], cwd=tmp_path)
    classes = os.pathsep.join(("classes", jars))
    run([*compiler, "-Werror", "-d", "classes", "-cp", classes, journey], cwd=tmp_path)
    command = [java, "-cp", classes, f"{journey.stem}Kt"]
    assert running_server.journey(command, cwd=tmp_path, decimal=TWENTY_DIGITS) == expected_results(
        decimal=TWENTY_DIGITS
    )


def test_the_php_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    php = _program("php")
    if not GUZZLE.exists():
        pytest.skip("needs php-guzzlehttp-guzzle")
    for surface in SURFACES:
        properties = f"invokerPackage=Loyalty\\{surface.capitalize()}"
        # Else the asynchronous twin of trackEvents has the name of trackEventsAsync.
        mapping = ("--operation-id-name-mappings", "trackEventsAsync=queueEvents")
        _generate(running_server, tmp_path, "php", surface, *mapping, "--additional-properties", properties)
    shutil.copy(JOURNEYS / "openapi_generator.php", tmp_path / "journey.php")
    options = ("-d", "error_reporting=E_ALL & ~E_DEPRECATED", "-d", "display_errors=stderr")
    results = running_server.journey(
        [php, *options, "journey.php"], cwd=tmp_path, decimal=FIFTEEN_DIGITS, JOURNEY_AUTOLOAD=str(GUZZLE)
    )
    assert results == expected_results(decimal=FIFTEEN_DIGITS)


def test_the_rust_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    cargo = _program("cargo")
    for surface in SURFACES:
        # With chrono, moments of a query are sent in a form of its own.
        properties = f"packageName=loyalty_{surface},useChrono=false"
        _generate(running_server, tmp_path, "rust", surface, "--additional-properties", properties)
    (tmp_path / "Cargo.toml").write_text(CARGO)
    shutil.copy(JOURNEYS / "openapi_generator.rs", tmp_path / "journey.rs")
    run([cargo, "build", "--quiet"], cwd=tmp_path, CARGO_TARGET_DIR="target", CARGO_INCREMENTAL="0")
    command = [tmp_path / "target/debug/journey"]
    results = running_server.journey(command, cwd=tmp_path, decimal=FIFTEEN_DIGITS, JOURNEY_EXACT=TWENTY_DIGITS)
    assert results == expected_results(decimal=FIFTEEN_DIGITS)


def test_the_ruby_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    ruby = _program("ruby")
    if subprocess.run([ruby, "-e", "require 'typhoeus'"], capture_output=True, check=False).returncode:
        pytest.skip("needs the gem typhoeus")
    for surface in SURFACES:
        # Else moments are Times, which the client sends in a form of Ruby's own.
        mapping = ("--type-mappings", "DateTime=String")
        _generate(
            running_server, tmp_path, "ruby", surface, *mapping, "--additional-properties", f"gemName=loyalty_{surface}"
        )
    folders = [option for surface in SURFACES for option in ("-I", f"{surface}/lib")]
    journey = JOURNEYS / "openapi_generator.rb"
    strict = "def Warning.warn(text, **) = raise(text); RubyVM::InstructionSequence.compile_file(ARGV[0])"
    run([ruby, "-w", "-e", strict, journey], cwd=tmp_path)
    results = running_server.journey(
        [ruby, *folders, journey], cwd=tmp_path, decimal=FIFTEEN_DIGITS, JOURNEY_EXACT=TWENTY_DIGITS
    )
    assert results == expected_results(decimal=FIFTEEN_DIGITS)
