import { dirname, resolve } from 'node:path'
import type { PluginSource } from '../../core/config/check/checkPlugins.ts'
import { type LoadedConfig, loadConfig, parseConfig } from '../../core/config/loadConfig.ts'
import { createPluginLoader } from '../../core/kernel/pluginLoader.ts'
import type { AnyGatewayPlugin } from '../../core/plugin/gateway.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'

/** Reads a configuration file with the built-in plugins and the plugins that the file names. */
export function readConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<LoadedConfig<AnyGatewayPlugin>> {
  return loadConfig(file, { env, plugins: pluginSource(dirname(resolve(file))) })
}

/** Does the same as {@link readConfig}, for a text that was already read from the file. */
export function readConfigAgain(
  { file, text }: { readonly file: string; readonly text: string },
  env: Readonly<Record<string, string | undefined>>,
): Promise<LoadedConfig<AnyGatewayPlugin>> {
  return parseConfig(text, { file, env, plugins: pluginSource(dirname(resolve(file))) })
}

/**
 * The built-in plugins and the plugins in the configuration's folder. The built-in plugins run even if the configuration names
 * no plugin.
 */
export function pluginSource(baseDir: string): PluginSource<AnyGatewayPlugin> {
  const names = builtInPlugins.map((p) => p.name)
  return { ...createPluginLoader(builtInPlugins, baseDir), names, defaults: names }
}
