import { existsSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type CheckedDocument, checkDocument } from '../../core/config/check/checkDocument.ts'
import type { PluginDeclaration, PluginSource } from '../../core/config/check/checkPlugins.ts'
import type { Environment } from '../../core/config/read/interpolate.ts'
import { readConfigText } from '../../core/config/read/readConfigText.ts'
import { mistake } from '../../core/config/rules/rule.ts'
import { ownAssets } from '../../vault/config/ownAssets.ts'
import { type VaultConfig, vaultConfigSchema } from '../../vault/config/vaultConfigSchema.ts'
import type { VaultPluginEntry } from '../../vault/host/pipelines.ts'
import { builtInVaultPlugins } from '../../vault/plugins/builtIn.ts'
import { createPluginFinder, type FoundPlugin } from '../../vault/sandbox/findPlugin.ts'

/** Name of the configuration file in the vault's folder. It is read without `--config`, if it exists. */
export const defaultVaultConfig = 'vault.yaml'

export interface ReadVaultConfig {
  /** The file that was read. Undefined if there is none. */
  readonly file: string | undefined
  readonly config: VaultConfig
  readonly plugins: readonly VaultPluginEntry[]
  /** Valid but probably unintended settings, which the vault prints at the start. */
  readonly warnings: readonly string[]
}

/**
 * Reads the vault's configuration from the given file, or from `vault.yaml` in the vault's folder, and loads
 * its plugins.
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
    file === undefined ? '' : await readConfigText(file, 'Name another file with --config, or omit the flag.')
  const { values, plugins, warnings } = await checkVaultConfig(text, file ?? usual, env, home)
  return {
    file,
    config: values,
    plugins: plugins.map((plugin, i) => ({ ...plugin, ...mayAnswer(values, i) })),
    warnings: [
      ...warnings.map(({ line, message }) => `${file}:${line}: ${message}`),
      ...(file !== undefined && isOpenToOthers(file)
        ? [
            `Other users can change ${file}, which names code that takes part in the vault's decisions. Set its mode to 0600.`,
          ]
        : []),
    ],
  }
}

const mayAnswer = ({ plugins }: VaultConfig, i: number): { mayAnswer?: boolean } => {
  const mayAnswer = plugins[i]?.mayAnswer
  return mayAnswer === undefined ? {} : { mayAnswer: mayAnswer }
}

/** Does the same as {@link readVaultConfig}, for a text that was already read. */
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

/** The sections of the configuration that a command needs to open a vault's folder. */
export type OwnChainsAndAssets = Pick<VaultConfig, 'chains' | 'assets' | 'testnets'>

/**
 * The chains and assets of the configuration file in the vault's folder. The file's plugins are not loaded.
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
      // The schema check has already reported entries that do not fit.
      if (found.some(({ pointer }) => /^\/(?:chains|assets)(?:\/|$)/.test(pointer))) return []
      return ownAssets({ chains, assets }).problems.map(({ pointer, message }) => mistake(pointer, message))
    },
    plugins,
  })

const isOpenToOthers = (file: string): boolean => (statSync(file).mode & 0o022) !== 0
