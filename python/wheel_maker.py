"""Makes the package for `pip install .`: a wheel is a zip of files and a list of them, which takes no other package to
make. So the installation needs no network, whatever the machine's Python brings along (PEP 517, PEP 660)."""
import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _read(*path):
    with open(os.path.join(TREE, *path), "rb") as file:
        return file.read()


def _project():
    text = _read("pyproject.toml").decode()
    return {key: re.search(rf'^{key} = "(.*)"', text, re.M).group(1)
            for key in ("name", "version", "description", "requires-python")}


def _metadata(project):
    return ("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {description}\n"
            "Requires-Python: {requires-python}\nLicense: Apache-2.0\n").format(**project).encode()


def _package():
    return {f"backstep/{name}": _read("python", "backstep", name)
            for name in sorted(os.listdir(os.path.join(TREE, "python", "backstep"))) if name.endswith((".py", ".typed"))}


def _wheel(folder, files):
    project = _project()
    base = "{name}-{version}".format(**project)
    info = f"{base}.dist-info"
    files = {**files, f"{info}/METADATA": _metadata(project), f"{info}/LICENSE": _read("LICENSE"),
             f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: backstep\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{base}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, _package())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, {"backstep.pth": os.path.join(TREE, "python").encode() + b"\n"})


def build_sdist(sdist_directory, config_settings=None):
    project = _project()
    base = "{name}-{version}".format(**project)
    files = {f"python/{name}": content for name, content in _package().items()}
    for path in (("python", "wheel_maker.py"), ("pyproject.toml",), ("LICENSE",)):
        files["/".join(path)] = _read(*path)
    files["PKG-INFO"] = _metadata(project)
    with tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{base}/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return f"{base}.tar.gz"
