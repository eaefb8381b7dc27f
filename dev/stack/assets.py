"""Programs that the stack and tests run, such as Kubernetes and Helm: found on the machine, else built by Go.

`k8s.io/kubernetes` cannot be installed by `go install`, because its module replaces its parts by local folders.
Therefore `dev/distributions/kubernetes` has a wrapper module per version that pins the published versions of the parts
and of etcd. There are also wrapper modules for `promtool`, the part of Prometheus that tests alerts, for `versitygw`,
an S3 server for a folder, and for the controllers of Flux and Argo CD, whose definitions are stored with the programs.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dev.paths import REPOSITORY, cache_root
from dev.progress import AssetError, exclusive, need, run, say
from dev.stack.versions import chosen

HELM_VERSION = "v3.22.0"
COREDNS_VERSION = "v1.12.4"
REGISTRY_VERSION = "v3.1.2"
KREW_VERSION = "v0.5.0"
_KUBERNETES_MODULES = REPOSITORY / "dev" / "distributions" / "kubernetes"
_DEFAULT_KUBERNETES = "1.36.3"
_KSTATUS_MODULE = REPOSITORY / "dev" / "distributions" / "kstatus"
_PROMTOOL_PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
_PROMTOOL_MODULE = REPOSITORY / "dev" / "distributions" / "promtool"
_VERSITYGW = "github.com/versity/versitygw"
_VERSITYGW_MODULE = REPOSITORY / "dev" / "distributions" / "versitygw"
_FLUX_MODULES = REPOSITORY / "dev" / "distributions" / "flux"
_FLUX = ("source-controller", "kustomize-controller")
_ARGOCD = "github.com/argoproj/argo-cd/v3"
_ARGOCD_MODULE = REPOSITORY / "dev" / "distributions" / "argocd"
_REDIS_MODULE = REPOSITORY / "dev" / "distributions" / "redis"
_CHOSEN = "RACKSPAN_KUBERNETES"
_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
}
_TOGETHER = ("etcd", "kube-apiserver", "kubectl")  # installed by setup-envtest: one version from one directory
CONTROL_PLANE = (*_TOGETHER, "kube-controller-manager")
ON_REQUEST = tuple(sorted(set(_PACKAGES) - set(CONTROL_PLANE)))


def kubernetes_versions() -> list[str]:
    """Return the versions that can be built, oldest first: the folders in `dev/distributions/kubernetes`."""
    return [path.name for path in sorted(_KUBERNETES_MODULES.iterdir(), key=_version_key)]


def kubernetes_version() -> str:
    """Return the version that is built if no programs are found, for example `v1.36.3`.

    It is `RACKSPAN_KUBERNETES`, which `make KUBERNETES=1.30.14 …` sets, else the default. Raises AssetError if it is
    not pinned.
    """
    return f"v{chosen('Kubernetes', _CHOSEN, _DEFAULT_KUBERNETES, kubernetes_versions())}"


def find_kubernetes(names: Iterable[str] = CONTROL_PLANE) -> dict[str, Path]:
    """Return the paths of those programs that are already built.

    The directories in order are `$KUBEBUILDER_ASSETS`, those of setup-envtest (newest version first), and earlier
    builds of this module. If a version is selected, only the last one is used. etcd, kube-apiserver and kubectl come
    from the first directory that has all three. A program that this directory lacks may come from a later one, because
    setup-envtest installs no controller manager.
    """
    wanted = tuple(names)
    places = [place for place in _places() if all(_executable(place / name) for name in _TOGETHER)]
    return {
        name: next(place / name for place in places if _executable(place / name))
        for name in wanted
        if any(_executable(place / name) for place in places)
    }


def ensure_kubernetes(names: Iterable[str] = CONTROL_PLANE) -> dict[str, Path]:
    """Return the paths of the programs. Build those that are missing."""
    wanted = tuple(names)
    if unknown := set(wanted) - set(_PACKAGES):
        raise AssetError(f"unknown Kubernetes programs: {', '.join(sorted(unknown))}")
    if find_kubernetes(wanted).keys() < set(wanted):
        destination = _built()
        with exclusive(destination / ".lock"):
            found = find_kubernetes(wanted)
            missing = [name for name in wanted if name not in found]
            # A directory is used only if it has all three, so an incomplete cache has to be completed first.
            missing += [n for n in _TOGETHER if missing and n not in missing and not _executable(destination / n)]
            if missing:
                _build(missing, destination)
    return find_kubernetes(wanted)


def find_helm() -> Path | None:
    """Return the pinned helm, or None if it is not built."""
    return _find_program("helm", HELM_VERSION)


def ensure_helm() -> Path:
    """Return the pinned helm. Build it if it is missing."""
    return _ensure_program(
        "helm", HELM_VERSION, [f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}"], "about two to five minutes"
    )


def find_coredns() -> Path | None:
    """Return the pinned CoreDNS, or None if it is not built."""
    return _find_program("coredns", COREDNS_VERSION)


def ensure_coredns() -> Path:
    """Return the pinned CoreDNS, by which pods resolve Services. Build it if it is missing."""
    return _ensure_program(
        "coredns", COREDNS_VERSION, [f"github.com/coredns/coredns@{COREDNS_VERSION}"], "about two to five minutes"
    )


def ensure_registry() -> Path:
    """Return the pinned OCI registry (CNCF Distribution). Build it if it is missing."""
    return _ensure_program(
        "registry",
        REGISTRY_VERSION,
        [f"github.com/distribution/distribution/v3/cmd/registry@{REGISTRY_VERSION}"],
        "about two minutes",
    )


def ensure_krew() -> Path:
    """Return the pinned Krew, which installs kubectl plug-ins. Build it if it is missing."""
    return _ensure_program("krew", KREW_VERSION, [f"sigs.k8s.io/krew/cmd/krew@{KREW_VERSION}"], "about half a minute")


def find_promtool() -> Path | None:
    """Return the pinned promtool, or None if it is not built."""
    return _find_program("promtool", _promtool_version())


def ensure_promtool() -> Path:
    """Return the pinned promtool. Build it if it is missing, without service discovery, which is not needed."""
    return _ensure_program(
        "promtool",
        _promtool_version(),
        ["-trimpath", "-buildvcs=false", "-tags", "remove_all_sd", "-ldflags", "-s -w", _PROMTOOL_PACKAGE],
        "about two to four minutes",
        module=_PROMTOOL_MODULE,
    )


def _promtool_version() -> str:
    return _pinned(_PROMTOOL_MODULE, "github.com/prometheus/prometheus")


def find_versitygw() -> Path | None:
    """Return the pinned S3 server, or None if it is not built."""
    return _find_program("versitygw", _pinned(_VERSITYGW_MODULE, _VERSITYGW))


def ensure_versitygw() -> Path:
    """Return the pinned S3 server. Build it if it is missing."""
    build = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w", f"{_VERSITYGW}/cmd/versitygw"]
    version = _pinned(_VERSITYGW_MODULE, _VERSITYGW)
    return _ensure_program("versitygw", version, build, "about one minute", module=_VERSITYGW_MODULE)


def find_flux() -> dict[str, Path] | None:
    """Return the pinned controllers of Flux by name, or None if one is not built."""
    found = {name: _find_program(name, _flux_version(name)) for name in _FLUX}
    built = {name: path for name, path in found.items() if path is not None and definitions_of(path).is_dir()}
    return built if built.keys() == found.keys() else None


def ensure_flux() -> dict[str, Path]:
    """Return the pinned controllers of Flux by name. Build those that are missing."""
    return {name: _ensure_flux(name) for name in _FLUX}


def definitions_of(program: Path) -> Path:
    """Return the folder of the CustomResourceDefinitions of a controller, which come with its module."""
    return program.parent / "definitions"


def _ensure_flux(name: str) -> Path:
    module = f"github.com/fluxcd/{name}"
    build = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w", module]
    wrapper = _FLUX_MODULES / name
    program = _ensure_program(name, _flux_version(name), build, "about two to ten minutes", module=wrapper)
    _ensure_definitions(program, wrapper, module, "config/crd/bases/*.yaml")
    return program


def _flux_version(name: str) -> str:
    return _pinned(_FLUX_MODULES / name, f"github.com/fluxcd/{name}")


def find_argocd() -> dict[str, Path] | None:
    """Return the pinned program for all components of Argo CD, and its Redis, or None if one is not built."""
    argocd = _find_program("argocd", _pinned(_ARGOCD_MODULE, _ARGOCD))
    redis = _find_program("redis", _version_of_sources(_REDIS_MODULE))
    if argocd is None or redis is None or not definitions_of(argocd).is_dir():
        return None
    return {"argocd": argocd, "redis": redis}


def ensure_argocd() -> dict[str, Path]:
    """Return the pinned program of Argo CD and its Redis. Build what is missing."""
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    argocd = _ensure_program(
        "argocd",
        _pinned(_ARGOCD_MODULE, _ARGOCD),
        [*flags, f"{_ARGOCD}/cmd"],
        "about five to fifteen minutes",
        module=_ARGOCD_MODULE,
    )
    _ensure_definitions(argocd, _ARGOCD_MODULE, _ARGOCD, "manifests/crds/*-crd.yaml")
    version = _version_of_sources(_REDIS_MODULE)
    redis = _ensure_program("redis", version, [*flags, "."], "about half a minute", module=_REDIS_MODULE)
    return {"argocd": argocd, "redis": redis}


def _ensure_definitions(program: Path, wrapper: Path, module: str, pattern: str) -> None:
    """Copy the definitions of the pinned module from the module cache of Go."""
    destination = definitions_of(program)
    with exclusive(program.parent / ".lock"):
        if not destination.is_dir():
            command = [need("go", f"find {module}"), "mod", "download", "-json", module]
            environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
            found = subprocess.run(command, cwd=wrapper, env=environment, stdout=subprocess.PIPE, check=True)
            with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
                copies = Path(scratch, "definitions")
                copies.mkdir()
                for file in Path(json.loads(found.stdout)["Dir"]).glob(pattern):
                    shutil.copyfile(file, copies / file.name)  # without the mode: Go's cache is read-only
                copies.replace(destination)


def _pinned(module: Path, dependency: str) -> str:
    """Return the version of a dependency that a wrapper module requires."""
    pinned = re.search(
        rf"^(?:require)?\s*{re.escape(dependency)} (v\S+)", (module / "go.mod").read_text(), re.MULTILINE
    )
    if pinned is None:
        raise AssetError(f"{module / 'go.mod'} does not pin {dependency}")
    return pinned[1]


def find_kstatus() -> Path | None:
    """Return the program for kstatus, the library that checks if an object is reconciled, or None if not built."""
    return _find_program("kstatus", _version_of_sources(_KSTATUS_MODULE))


def ensure_kstatus() -> Path:
    """Return the program for kstatus. Build it if it is missing."""
    build = ["-trimpath", "-buildvcs=false", "."]
    version = _version_of_sources(_KSTATUS_MODULE)
    return _ensure_program("kstatus", version, build, "about half a minute", module=_KSTATUS_MODULE)


def _version_of_sources(module: Path) -> str:
    """Return the version of a program whose sources are in this repository: the hash of the sources."""
    sources = sorted(path for path in module.iterdir() if path.is_file())
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def _find_program(name: str, version: str) -> Path | None:
    program = cache_root() / name / version / name
    return program if _executable(program) else None


def _ensure_program(
    name: str, version: str, build: Sequence[str], duration: str, *, module: Path | None = None
) -> Path:
    """Return a program. If missing, run `go install` with the arguments `build`, in a wrapper module if given."""
    destination = cache_root() / name / version
    with exclusive(destination / ".lock"):
        if _find_program(name, version) is None:
            with tempfile.TemporaryDirectory(dir=destination) as scratch:
                pinned = {} if module is None else {"GOFLAGS": "-mod=readonly"}
                run(
                    [need("go", f"build {name}"), "install", "-v", *build],
                    f"building {name} {version} through Go modules: {duration}, once per machine",
                    cwd=module or Path(scratch),
                    env={**os.environ, "GOBIN": scratch, "CGO_ENABLED": "0", "GOWORK": "off", **pinned},
                    tally=_is_package,
                )
                (built,) = Path(scratch).iterdir()  # Go names the program after its package
                built.replace(destination / name)
    return destination / name


def _places() -> Iterator[Path]:
    if os.environ.get(_CHOSEN):
        yield _built()
        return
    if named := os.environ.get("KUBEBUILDER_ASSETS"):
        yield Path(named).expanduser()
    data_home = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    yield from sorted((data_home / "kubebuilder-envtest" / "k8s").glob("*"), key=_version_key, reverse=True)
    yield _built()


def _version_key(directory: Path) -> tuple[int, ...]:
    """`1.36.0-linux-amd64` → (1, 36, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", directory.name.partition("-")[0]))


def _built() -> Path:
    return cache_root() / "kubernetes" / kubernetes_version()


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _build(names: list[str], destination: Path) -> None:
    version = kubernetes_version()
    with tempfile.TemporaryDirectory(dir=destination) as scratch:
        # One invocation compiles shared packages once and overlaps linking with compilation.
        run(
            [
                *(need("go", "build Kubernetes"), "build", "-v", "-trimpath", "-buildvcs=false"),
                *("-ldflags", _linker_flags(version), "-o", f"{scratch}/"),
                *(_PACKAGES[name] for name in names),
            ],
            f"building {', '.join(names)} {version} through Go modules: about 5 to 15 minutes, once per machine",
            cwd=_KUBERNETES_MODULES / version.removeprefix("v"),
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"},
            tally=_is_package,
        )
        for name in names:
            # The package of etcd is .../server/v3, so Go names the program "server".
            (Path(scratch) / ("server" if name == "etcd" else name)).replace(destination / name)
    say(f"kept in {destination}; Go's own caches may be cleaned (`go clean -cache -modcache`)")


def _is_package(line: str) -> bool:
    """Return whether a line of `go build -v` names a compiled package or a downloaded module."""
    return bool(line.strip())


def _linker_flags(version: str) -> str:
    """Return the linker flags of the Kubernetes build. Without them, the API server reports version v0.0.0."""
    major, minor = version[1:].split(".")[:2]
    stamps = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "gitCommit": "unknown",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s", "-w", *(f"-X {package}.{k}={v}" for package in packages for k, v in stamps.items())])
