import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join, relative, resolve, sep } from 'node:path'
import type { Command } from 'commander'
import { createOutput, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { type ContractImports, pluginFiles } from './pluginTemplate.ts'
import { vaultPluginFiles } from './vaultPluginTemplate.ts'

export interface PluginNewFlags {
  readonly dir?: string
  readonly vault?: boolean
  readonly json?: boolean
}

/** Adds `tollgate plugin new`: writes a working plugin with options, a README and a passing test. */
export function registerPluginNew(program: Command): void {
  const group = program.commands.find((command) => command.name() === 'plugin') ?? program.command('plugin')
  group
    .description('Create your own plugins.')
    .command('new')
    .description('Write a new plugin with options, a README and a passing test.')
    .argument('<name>', 'name of the plugin, such as my-plugin')
    .option('-d, --dir <folder>', 'folder to which the plugin is written (default: ./<name>)')
    .option('--vault', 'create a plugin for the vault, not for the gateway')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  tollgate plugin new my-plugin
  tollgate plugin new my-policy --vault
  node --test my-plugin/index.test.ts`,
    )
    .action(async (name: string, flags: PluginNewFlags) => {
      const { stdout, stderr, env } = process
      const output = createOutput({ stdout, stderr, env, json: flags.json })
      try {
        await runPluginNew(name, flags, output, process.cwd())
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** Writes the plugin. @throws {UsageError} for an invalid name, or a folder that is not empty */
export async function runPluginNew(
  name: string,
  flags: PluginNewFlags,
  output: Output,
  cwd: string,
): Promise<void> {
  await checkName(name)
  const folder = resolve(cwd, flags.dir ?? name)
  await checkEmpty(folder)
  await mkdir(folder, { recursive: true })
  const inClone = isInClone(folder)
  const isVault = flags.vault === true
  const write = isVault ? vaultPluginFiles : pluginFiles
  const files = write(name, contractFrom(folder, inClone, isVault), inClone ? 'tap' : 'node')
  // The flag `wx` makes the write fail if the file was created in the meantime.
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text, { flag: 'wx' })

  const shown = `./${relative(cwd, folder).split(sep).join('/')}`
  output.result(
    { name, folder, files: Object.keys(files) },
    `Wrote ${Object.keys(files).join(', ')} to ${shown}.

Try it:      node --test ${shown}/index.test.ts
Run it:      add this to \`plugins:\` in your ${isVault ? 'vault.yaml' : 'configuration'}; the path is relative to that file
               - use: ${shown}/index.ts`,
  )
}

async function checkName(name: string): Promise<void> {
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || name.length > 50) {
    throw new UsageError(
      `Expected a name of lower-case letters, digits and single hyphens, such as my-plugin, got ${JSON.stringify(name)}.`,
    )
  }
  const { builtInPlugins } = await import('../../plugins/builtIn.ts')
  const { builtInVaultPlugins } = await import('../../vault/plugins/builtIn.ts')
  if ([...builtInPlugins, ...builtInVaultPlugins].some((plugin) => plugin.name === name)) {
    throw new UsageError(
      `${name} is the name of a built-in plugin, which would be used instead. Choose another name.`,
    )
  }
}

async function checkEmpty(folder: string): Promise<void> {
  const found = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    if (error.code === 'ENOTDIR')
      throw new UsageError(`${folder} is a file. Choose another folder with --dir.`)
    throw error
  })
  if (found.length > 0) throw new UsageError(`${folder} is not empty. Choose another folder with --dir.`)
}

const root = resolve(import.meta.dirname, '../..')

/** Whether the folder is in a clone of Tollgate, where the sources run directly. */
const isInClone = (folder: string): boolean =>
  import.meta.filename.endsWith('.ts') && !relative(root, folder).startsWith('..')

/** Where a plugin imports the contract from: a relative path in a clone, otherwise the package. */
function contractFrom(folder: string, inClone: boolean, isVault: boolean): ContractImports {
  if (!inClone) return { plugin: 'tollgate/plugin', options: 'tollgate/plugin' }
  const core = relative(folder, join(root, 'core/plugin')).split(sep).join('/')
  return { plugin: `${core}/${isVault ? 'vault' : 'gateway'}.ts`, options: `${core}/options.ts` }
}
