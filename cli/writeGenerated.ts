// Writes what is generated from code into the files that show it (the reference, the editors' schema, examples in the guides):
// `node cli/writeGenerated.ts`. With --check it only compares, and fails if a file is not up to date.
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { extname, join, relative } from 'node:path'
import {
  codeTable,
  configReference,
  errorTable,
  markdownTable,
  optionsList,
  pluginReference,
} from '../core/config/docs.ts'
import { configJsonSchema } from '../core/config/jsonSchema.ts'
import { webhookEvents } from '../core/domain/webhook.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'
import { vaultConfigSchema } from '../vault/config/vaultConfigSchema.ts'
import { vaultCodes } from '../vault/errors/codes.ts'
import { builtInVaultPlugins } from '../vault/plugins/builtIn.ts'
import { createPipeline } from './program.ts'
import { commandReference } from './reference/commands.ts'
import { metricsReference } from './reference/metrics.ts'
import { routeReference, vaultRouteReference } from './reference/routes.ts'

const root = join(import.meta.dirname, '..')

interface GeneratedFile {
  readonly path: string
  readonly text: string
}

/** Every generated file with the text that it should have. A document without markers stays unchanged. */
export async function generatedFiles(): Promise<GeneratedFile[]> {
  const references: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'configuration.md': { options: configReference(), plugins: pluginReference(builtInPlugins) },
    'vault-configuration.md': {
      options: configReference(vaultConfigSchema),
      plugins: pluginReference(builtInVaultPlugins),
    },
    'errors.md': { calls: errorTable('calls'), api: errorTable('api') },
    'vault-errors.md': { vault: codeTable(vaultCodes) },
    'api.md': { routes: await routeReference() },
    'vault-api.md': { routes: vaultRouteReference() },
    'cli.md': { commands: commandReference(createPipeline()) },
    'metrics.md': { metrics: await metricsReference() },
    'events.md': {
      events: markdownTable([
        ['Event', 'When', 'In `data`'],
        ...Object.entries(webhookEvents).map(([kind, { when, data }]) => [`\`${kind}\``, when, data]),
      ]),
    },
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
    ...guides().flatMap((guide) =>
      inDocument(guide, { ...references[guide.replace('docs/reference/', '')], ...examplesIn(guide) }),
    ),
    ...builtInPlugins.flatMap(({ name, options }) =>
      inDocument(`plugins/${name}/README.md`, { options: optionsList(options) }),
    ),
    ...builtInVaultPlugins.flatMap(({ name, options }) =>
      inDocument(`vault/plugins/${name}/README.md`, { options: optionsList(options) }),
    ),
  ]
}

/** Generated files whose text differs from the file on disk. */
export const staleFiles = async (): Promise<GeneratedFile[]> =>
  (await generatedFiles()).filter(
    ({ path, text }) => !existsSync(path) || readFileSync(path, 'utf8') !== text,
  )

const guides = () => ['README.md', 'CONTRIBUTING.md', ...globSync('docs/**/*.md', { cwd: root })]

/** The example files that a guide includes, by `<!-- file:examples/plugin/index.ts:start -->` and the same with `end`. */
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

/** Puts a generated text between the markers `<!-- name:start -->` and `<!-- name:end -->`. Undefined without these markers. */
export function replaceGenerated(document: string, name: string, generated: string): string | undefined {
  const start = `<!-- ${name}:start -->`
  const end = `<!-- ${name}:end -->`
  const from = document.indexOf(start)
  const to = document.indexOf(end)
  if (from < 0 || to < from) return undefined
  return `${document.slice(0, from + start.length)}\n${generated}\n${document.slice(to)}`
}

if (import.meta.main) {
  const isCheck = process.argv.includes('--check')
  for (const { path, text } of await staleFiles()) {
    if (isCheck) process.exitCode = 1
    else writeFileSync(path, text)
    process.stdout.write(`${isCheck ? 'Not up to date' : 'Wrote'}: ${relative(root, path)}\n`)
  }
}
