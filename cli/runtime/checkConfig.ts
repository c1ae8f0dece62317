import { existsSync } from 'node:fs'
import { compile } from '../../core/kernel/compile.ts'
import { buildGeneration } from '../../core/kernel/generation.ts'
import { prototypeLinks } from '../../core/kernel/prototypeLinks.ts'
import { silentLog } from '../../core/ports/log.ts'
import { openStack } from './openStack.ts'
import { readConfig } from './readConfig.ts'

export interface CheckedLink {
  /** `<seller>/<slug>`, or the kind of link when the store has none. */
  readonly link: string
  readonly price: string
  readonly settle: 'after' | 'before'
  readonly program: readonly { readonly phase: string; readonly plugin: string }[]
  /** Plugins that look at every call afterwards. */
  readonly log: readonly string[]
}

export interface CheckedConfig {
  readonly links: readonly CheckedLink[]
  readonly warnings: readonly string[]
}

/**
 * Reads a configuration, sets its plugins up and compiles every link, without starting or writing anything.
 *
 * @throws ConfigError, GenerationError, PluginLoadError: what does not hold, in words
 */
export async function checkConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<CheckedConfig> {
  const { config, plugins, warnings } = await readConfig(file, env)
  const hasStore = existsSync(config.storage.path)
  const hasSecret = env['TOLLGATE_SECRET'] !== undefined || existsSync(config.secretFile)
  const stack = await openStack(
    { ...config, storage: { path: hasStore ? config.storage.path : ':memory:' } },
    // A stand-in, so that checking does not make the secret's file.
    { env: hasSecret ? env : { ...env, TOLLGATE_SECRET: '00'.repeat(32) }, log: silentLog, runsJobs: false },
  )
  try {
    const generation = await buildGeneration(plugins, stack.ports)
    const served = await stack.ports.links.allServed()
    const links = (served.length > 0 ? served : prototypeLinks).map((link) => {
      const { steps, logPlugins } = compile(link, generation.plugins)
      return {
        link: served.length > 0 ? `${link.username}/${link.slug}` : link.title,
        price: link.price,
        settle: link.settle,
        program: steps.map(({ phase, plugin }) => ({ phase, plugin })),
        log: logPlugins,
      }
    })
    await generation.closePlugins()
    return { links, warnings: warnings.map((w) => `${file}:${w.line}: ${w.message}`) }
  } finally {
    await stack.close()
  }
}
