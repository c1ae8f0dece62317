import { existsSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type CheckedDocument, checkDocument } from '../../core/config/check/checkDocument.ts'
import type { PluginDeclaration, PluginSource } from '../../core/config/check/checkPlugins.ts'
import type { Environment } from '../../core/config/read/interpolate.ts'
import { readConfigText } from '../../core/config/read/readConfigText.ts'
import { mistake } from '../../core/config/rules/finding.ts'
import { ownAssets } from '../../vault/config/ownAssets.ts'
import { type VaultConfig, vaultConfigSchema } from '../../vault/config/vaultConfigSchema.ts'
import type { VaultPluginEntry } from '../../vault/host/programs.ts'
import { builtInVaultPlugins } from '../../vault/plugins/builtIn.ts'
import { createPluginFinder, type FoundPlugin } from '../../vault/sandbox/findPlugin.ts'

/** The file that is read without `--config`, in the vault's folder, where there is one. */
export const defaultVaultConfig = 'vault.yaml'

export interface ReadVaultConfig {
  /** The file that was read; undefined when everything is a default. */
  readonly file: string | undefined
  readonly config: VaultConfig
  readonly plugins: readonly VaultPluginEntry[]
  /** Allowed, and probably not what was meant: to be printed at the start. */
  readonly warnings: readonly string[]
}

/**
 * Reads the vault's configuration and finds its plugins: the file that was named, or `vault.yaml` in the vault's folder.
 *
 * @throws {ConfigError} with every problem of the file and of its plugins' options at once
 */
export async function readVaultConfig(
  home: string,
  given: string | undefined,
  env: Environment,
): Promise<ReadVaultConfig> {
  const usual = join(home, defaultVaultConfig)
  const file = given !== undefined ? resolve(given) : existsSync(usual) ? usual : undefined
  const text =
    file === undefined ? '' : await readConfigText(file, 'Name another with --config, or leave the flag out.')
  const { values, plugins, warnings } = await checkVaultConfig(text, file ?? usual, env, home)
  return {
    file,
    config: values,
    plugins: plugins.map((plugin, i) => ({ ...plugin, ...mayAnswer(values, i) })),
    warnings: [
      ...warnings.map(({ line, message }) => `${file}:${line}: ${message}`),
      ...(file !== undefined && isOpenToOthers(file)
        ? [
            `Others may change ${file}, which names code that takes part in what the vault decides; give it mode 0600.`,
          ]
        : []),
    ],
  }
}

const mayAnswer = ({ plugins }: VaultConfig, i: number): { mayAnswer?: boolean } => {
  const said = plugins[i]?.mayAnswer
  return said === undefined ? {} : { mayAnswer: said }
}

/** {@link readVaultConfig} for a text that is there already. */
export const checkVaultConfig = (
  text: string,
  file: string,
  env: Environment,
  home = dirname(resolve(file)),
): Promise<CheckedDocument<typeof vaultConfigSchema, FoundPlugin>> =>
  check(text, file, env, {
    ...createPluginFinder(builtInVaultPlugins, dirname(resolve(file)), home),
    names: builtInVaultPlugins.map(({ name }) => name),
  })

/** What a command that opens the folder of a vault needs of its configuration. */
export type OwnChainsAndAssets = Pick<VaultConfig, 'chains' | 'assets' | 'testnets'>

/**
 * The chains and assets of the vault's usual configuration; its plugins are neither looked for nor run.
 *
 * @throws {ConfigError}
 */
export async function readOwnAssets(home: string, env: Environment): Promise<OwnChainsAndAssets> {
  const file = join(home, defaultVaultConfig)
  const text = existsSync(file) ? await readConfigText(file, '') : ''
  const load = () => ({ name: 'any', options: anyOptions })
  return (await check(text, file, env, { load })).values
}

const anyOptions = { type: 'object', additionalProperties: true, properties: {} } as never

const check = <P extends PluginDeclaration>(
  text: string,
  file: string,
  env: Environment,
  plugins: PluginSource<P>,
): Promise<CheckedDocument<typeof vaultConfigSchema, P>> =>
  checkDocument(text, {
    file,
    env,
    schema: vaultConfigSchema,
    rules: ({ chains, assets }, _, found) => {
      // Entries that do not fit the schema are told already.
      if (found.some(({ pointer }) => /^\/(?:chains|assets)(?:\/|$)/.test(pointer))) return []
      return ownAssets({ chains, assets }).problems.map(({ pointer, message }) => mistake(pointer, message))
    },
    plugins,
  })

const isOpenToOthers = (file: string): boolean => (statSync(file).mode & 0o022) !== 0
