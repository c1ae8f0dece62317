import { readFile, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Command } from 'commander'
import { configJsonSchema, type DescribedPlugin } from '../../core/config/jsonSchema.ts'
import { readSource } from '../../core/config/read/source.ts'
import { createOutput, jsonOption, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

export interface SchemaFlags {
  readonly json?: true
  readonly write?: string
  readonly config?: string
  readonly vault?: boolean
}

/** Adds `tollgate schema`: prints the JSON Schema of a configuration file, for editors. */
export function registerSchema(program: Command): void {
  program
    .command('schema')
    .description('Print the JSON Schema of a configuration file, for completion and checks in editors.')
    .option('-w, --write <file>', 'write the schema to this file instead of printing it')
    .option(
      '-c, --config <file>',
      'configuration file with your own plugins, whose options are added to the schema',
    )
    .option('--vault', "print the schema of a vault's configuration file (vault.yaml)")
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
Editors use it if the configuration begins with this line:
  # yaml-language-server: $schema=./tollgate.schema.json

Examples:
  tollgate schema --write tollgate.schema.json
  tollgate schema --config tollgate.yaml --write tollgate.schema.json
  tollgate schema --vault --write vault.schema.json`,
    )
    .action(async (flags: SchemaFlags) => {
      const { stdout, stderr, env } = process
      const output = createOutput({ stdout, stderr, env, json: flags.json })
      try {
        await runSchema(flags, output, (text) => stdout.write(text))
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** Writes the schema to the given file, or passes its text to `print`. */
export async function runSchema(
  flags: SchemaFlags,
  output: Output,
  print: (text: string) => void,
): Promise<void> {
  const { builtIn, loaderAt, schema } = flags.vault === true ? await ofVault() : await ofGateway()
  const own = flags.config === undefined ? [] : await pluginsOf(flags.config, builtIn, loaderAt)
  const text = `${JSON.stringify(configJsonSchema([...builtIn, ...own], schema), null, 2)}\n`
  if (flags.write === undefined) {
    print(text)
    return
  }
  await writeFile(flags.write, text)
  output.result({ written: flags.write }, `Wrote ${flags.write}.`)
}

/** Creates a loader of the plugins in a folder. Vault plugins are inspected in a separate process. */
type LoaderAt = (folder: string) => { load(use: string): Promise<DescribedPlugin> }

// Imported only when the command runs, because every run of the program registers it.
const ofGateway = async () => {
  const { builtInPlugins } = await import('../../plugins/builtIn.ts')
  const { createPluginLoader } = await import('../../core/kernel/pluginLoader.ts')
  const loaderAt: LoaderAt = (folder) => createPluginLoader(builtInPlugins, folder)
  return { builtIn: builtInPlugins, loaderAt, schema: undefined } as const
}
const ofVault = async () => {
  const { builtInVaultPlugins } = await import('../../vault/plugins/builtIn.ts')
  const { vaultConfigSchema } = await import('../../vault/config/vaultConfigSchema.ts')
  const { createPluginFinder } = await import('../../vault/sandbox/findPlugin.ts')
  const loaderAt: LoaderAt = (folder) => createPluginFinder(builtInVaultPlugins, folder, folder)
  return { builtIn: builtInVaultPlugins, loaderAt, schema: vaultConfigSchema } as const
}

/** The plugins that a file uses in addition to the built-in ones, by the value of `use:`. */
async function pluginsOf(
  file: string,
  builtInPlugins: readonly DescribedPlugin[],
  loaderAt: LoaderAt,
): Promise<DescribedPlugin[]> {
  const { tree, problems } = readSource(file, await readFile(file, 'utf8'))
  if (problems.length > 0) throw new UsageError(`${file} can't be read. Run tollgate check to see why.`)
  const loader = loaderAt(dirname(resolve(file)))
  const builtIn = new Set(builtInPlugins.map(({ name }) => name))
  const named = new Set(usesOf(tree).filter((use) => !builtIn.has(use)))
  return Promise.all([...named].map(async (use) => ({ ...(await loader.load(use)), name: use })))
}

function usesOf(tree: unknown): string[] {
  const { plugins } = tree as { plugins?: unknown }
  if (!Array.isArray(plugins)) return []
  return plugins.map((entry: { use?: unknown } | null) => entry?.use).filter((use) => typeof use === 'string')
}
