#!/bin/sh
# install.sh PACKAGE LOCK FOLDER: unpacks the npm package into an empty folder, together with what it needs to run, in the
# versions of the lock file. Packages bring their compiled parts along, so no script of theirs has to run here.
set -eu
package=$1 lock=$2 folder=$3

mkdir -p "$folder"
tar -xzf "$package" -C "$folder" --strip-components=1
cp "$lock" "$folder/package-lock.json"
cd "$folder"

# Tools of developers, and the local chains of `tollgate demo` (55 MB), are not even looked for.
node -e '
  const fs = require("node:fs")
  const edit = (file, change) => {
    const content = JSON.parse(fs.readFileSync(file, "utf8"))
    change(content)
    fs.writeFileSync(file, JSON.stringify(content, null, 2))
  }
  const strip = (content) => {
    delete content.devDependencies
    delete content.optionalDependencies
    delete content.overrides
  }
  edit("package.json", strip)
  edit("package-lock.json", ({ packages }) => strip(packages[""]))
'
npm ci --omit=dev --ignore-scripts --no-audit --no-fund
rm package-lock.json

# Node runs none of these from packages: types, sources and their maps.
find node_modules -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' \) -delete
