// Writes what comes from code into the files that show it (option tables, the error table, the editors' schema, examples
// in the guides): `node cli/writeGenerated.ts`. With --check it only compares, and fails when one is not up to date.
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { extname, join, relative } from 'node:path'
import { configReference, optionsTable, replaceGenerated } from '../core/config/docs.ts'
import { configJsonSchema } from '../core/config/jsonSchema.ts'
import { codeTable } from '../core/errors/codeTable.ts'
import { errorTable } from '../core/errors/table.ts'
import type { OptionsSchema } from '../core/plugin/options.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'
import { vaultConfigSchema } from '../vault/config/vaultConfigSchema.ts'
import { vaultCodes } from '../vault/errors/codes.ts'
import { builtInVaultPlugins } from '../vault/plugins/builtIn.ts'

const root = join(import.meta.dirname, '..')

interface GeneratedFile {
  readonly path: string
  readonly text: string
}

/** Every generated file with the text that it should have. A document without the markers is left alone. */
export function generatedFiles(): GeneratedFile[] {
  const tables: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'docs/configuration.md': { options: configReference(), plugins: tablesOf(builtInPlugins) },
    'docs/vault-plugins.md': {
      options: configReference(vaultConfigSchema),
      plugins: tablesOf(builtInVaultPlugins),
    },
    'docs/vault-errors.md': { vault: codeTable(vaultCodes) },
    'docs/errors.md': { calls: errorTable('calls'), api: errorTable('api') },
  }
  const schemas = {
    tollgate: configJsonSchema(builtInPlugins),
    vault: configJsonSchema(builtInVaultPlugins, vaultConfigSchema),
  }
  return [
    ...Object.entries(schemas).map(([name, schema]) => ({
      path: join(root, `config/${name}.schema.json`),
      text: `${JSON.stringify(schema, null, 2)}\n`,
    })),
    ...guides().flatMap((guide) => inDocument(guide, { ...tables[guide], ...examplesIn(guide) })),
    ...builtInPlugins.flatMap(({ name, options }) =>
      inDocument(`plugins/${name}/README.md`, { options: optionsTable(options) }),
    ),
    ...builtInVaultPlugins.flatMap(({ name, options }) =>
      inDocument(`vault/plugins/${name}/README.md`, { options: optionsTable(options) }),
    ),
  ]
}

const tablesOf = (plugins: readonly { readonly name: string; readonly options: OptionsSchema }[]): string =>
  plugins.map(({ name, options }) => `### ${name}\n\n${optionsTable(options)}`).join('\n\n')

/** Those that differ from what is on disk. */
export const staleFiles = (): GeneratedFile[] =>
  generatedFiles().filter(({ path, text }) => !existsSync(path) || readFileSync(path, 'utf8') !== text)

const guides = () => ['README.md', 'CONTRIBUTING.md', ...globSync('docs/**/*.md', { cwd: root })]

/** Files that a guide shows: `<!-- file:examples/plugin/index.ts:start -->` and the same with `end`. */
function examplesIn(guide: string): Record<string, string> {
  const path = join(root, guide)
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const shown = [...text.matchAll(/^<!-- file:(\S+):start -->$/gm)].map(([, file]) => file!)
  return Object.fromEntries(shown.map((file) => [`file:${file}`, codeBlock(file)]))
}

const codeBlock = (file: string) =>
  `\`\`\`${extname(file).slice(1)}\n${readFileSync(join(root, file), 'utf8').trimEnd()}\n\`\`\``

function inDocument(name: string, parts: Readonly<Record<string, string>>): GeneratedFile[] {
  const path = join(root, name)
  if (!existsSync(path)) return []
  let text: string | undefined = readFileSync(path, 'utf8')
  for (const [part, generated] of Object.entries(parts))
    text = text && replaceGenerated(text, part, generated)
  return text === undefined ? [] : [{ path, text }]
}

if (import.meta.main) {
  const isCheck = process.argv.includes('--check')
  for (const { path, text } of staleFiles()) {
    if (isCheck) process.exitCode = 1
    else writeFileSync(path, text)
    process.stdout.write(`${isCheck ? 'Not up to date' : 'Wrote'}: ${relative(root, path)}\n`)
  }
}
