import type { PluginDeclaration } from './checkPlugins.ts'
import { eachOption } from './eachOption.ts'
import type { LoadedConfig } from './load.ts'
import { type Pointer, setAt } from './pointer.ts'
import { configSchema } from './schema.ts'
import type { Config } from './types.ts'

/**
 * A copy of the configuration that may be printed: what came from the environment is shown as the `${NAME}` of the
 * file, and a secret that was written into the file is masked; of a secret URL the origin stays.
 */
export function redactConfig(loaded: LoadedConfig<PluginDeclaration>): Config {
  const copy = structuredClone(loaded.config)
  const placed = [...eachOption(configSchema, copy, '')]
  for (const [i, { plugin }] of loaded.plugins.entries()) {
    placed.push(...eachOption(plugin.options, copy.plugins[i]?.with, `/plugins/${i}/with`))
  }
  for (const { option, value, pointer } of placed) {
    if (option.writeOnly === true) setAt(copy, pointer, masked(value))
  }
  for (const [pointer, raw] of loaded.environment) setAt(copy, pointer as Pointer, raw)
  return copy
}

function masked(value: unknown): string {
  if (typeof value !== 'string' || !URL.canParse(value)) return '(hidden)'
  const { protocol, host, username, password, pathname, search } = new URL(value)
  if (host === '') return '(hidden)'
  const isBare = username === '' && password === '' && search === '' && pathname.length < 2
  return `${protocol}//${host}${isBare ? '' : '/(hidden)'}`
}
