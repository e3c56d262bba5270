"""Execute a notebook and write it with its outputs, without what differs between runs: notebook.py FROM TO DIRECTORY."""

from __future__ import annotations

import sys

import nbformat
from nbclient import NotebookClient


def main(source: str, target: str, directory: str) -> None:
    """Run the cells in a kernel of this interpreter; log lines on standard error are left out."""
    notebook = nbformat.read(source, as_version=4)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": directory}}
    ).execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("metadata", None)
                if output.output_type in ("display_data", "execute_result"):
                    output.metadata = {}
    nbformat.write(notebook, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
