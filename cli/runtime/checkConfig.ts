import { existsSync } from 'node:fs'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { isPaid, payoutFor, type ServedLink } from '../../core/domain/link.ts'
import { priceText } from '../../core/domain/pricing.ts'
import { buildGeneration, GenerationError, type PluginEntry } from '../../core/kernel/generation.ts'
import { type LinkPipeline, linkPipelineOf } from '../../core/kernel/linkPipeline.ts'
import { prototypeLinks } from '../../core/kernel/prototypeLinks.ts'
import { compileWhen } from '../../core/kernel/readyPlugin.ts'
import { silentLog } from '../../core/ports/log.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'
import { openStack, type Stack } from './open/openStack.ts'
import { readConfig } from './readConfig.ts'

export interface CheckedLink extends Pick<LinkPipeline, 'deliver' | 'log'> {
  /** `<seller>/<slug>` of the link. If the database has no links, the kind of link. */
  readonly link: string
  readonly price: string
  readonly settle: 'after' | 'before'
  readonly pipeline: LinkPipeline['steps']
}

export interface CheckedConfig {
  readonly links: readonly CheckedLink[]
  readonly warnings: readonly string[]
}

/**
 * Reads a configuration, sets up its plugins and compiles every link. Nothing listens or settles. An existing database is
 * migrated to this version's tables.
 *
 * @throws ConfigError, GenerationError or PluginLoadError, with a message that names what is invalid
 */
export async function checkConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<CheckedConfig> {
  const { config, plugins, warnings } = await readConfig(file, env)
  const hasStore = config.storage.postgres !== undefined || existsSync(config.storage.path)
  const hasSecret = env['TOLLGATE_SECRET'] !== undefined || existsSync(config.secretFile)
  const stack = await openStack(
    hasStore ? config : { ...config, storage: { path: ':memory:' } },
    // The sealer has a placeholder secret, so that a check does not create the secret file.
    {
      env: hasSecret ? env : { ...env, TOLLGATE_SECRET: '00'.repeat(32) },
      log: silentLog,
      runsJobs: false,
      worksOnPayments: false,
    },
  )
  try {
    const generation = await buildGeneration(plugins, stack.ports, { known: builtInPlugins })
    const served = [...(await stack.ports.links.allServed())].sort((a, b) =>
      addressOf(a) < addressOf(b) ? -1 : 1,
    )
    const linksByProblem = new Map<string, string[]>()
    const links = (served.length > 0 ? served : prototypeLinks).map((link) => {
      const name = served.length > 0 ? addressOf(link) : link.title
      const { steps, deliver, log, problems } = linkPipelineOf(generation, link)
      for (const problem of problems) {
        const others = linksByProblem.get(problem)
        if (others === undefined) linksByProblem.set(problem, [name])
        else others.push(name)
      }
      const { settle } = link
      return { link: name, price: priceText(link), settle, pipeline: steps, deliver, log }
    })
    await generation.closePlugins()
    const wrong = [...linksByProblem].map(([problem, names]) => `${someOf(names)}: ${problem}`)
    if (wrong.length > 0) throw new GenerationError(wrong.join('\n'))
    const texts = warnings.map((w) => `${file}:${w.line}: ${w.message}`)
    return { links, warnings: [...texts, ...idlePatterns(plugins, served), ...unpayable(stack, served)] }
  } finally {
    await stack.close()
  }
}

const addressOf = ({ username, slug }: ServedLink): string => `${username}/${slug}`

/** Lists a few names and counts the rest, so that a problem of a thousand links takes a single line. */
const someOf = (names: readonly string[]): string =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ')

/** Why no paid link can be paid, if that is so. The gateway would then refuse every buyer's call. */
function unpayable({ chains }: Stack, served: readonly ServedLink[]): string[] {
  const settling = chains.settlers.map(({ network }) => network)
  if (settling.length === 0) {
    const why =
      chains.missing.length === 0
        ? 'no network with a facilitator is configured. Add one under networks'
        : `the facilitator of ${chains.missing.join(', ')} does not respond`
    return [`No paid link can be paid: ${why}.`]
  }
  const paid = served.filter(isPaid)
  if (paid.length === 0) return []
  if (paid.some(({ payout }) => settling.some((network) => payoutFor(payout, network) !== null))) return []
  return [
    `No paid link can be paid, because no store has a wallet on ${settling.join(', ')}. Set a wallet in the dashboard, or with tollgate store payout.`,
  ]
}

/**
 * Patterns of `when.links` that match no existing link. The check reports them, because such a plugin never runs, although its
 * rule looks as if it applied.
 */
function idlePatterns(plugins: readonly PluginEntry[], served: readonly ServedLink[]): string[] {
  if (served.length === 0) return []
  const addresses = served.map(addressOf)
  return plugins.flatMap(({ plugin, when }) =>
    (when?.links ?? []).flatMap((pattern) => {
      const applies = compileWhen({ links: [pattern] })
      if (served.some((link) => applies({ link, isPaid: isPaid(link), settle: link.settle }))) return []
      const meant = nearMiss(pattern, addresses)
      const hint = meant === undefined ? '' : ` Did you mean ${meant}?`
      return [`Plugin ${plugin.name}: no link matches ${pattern} in its when.links.${hint}`]
    }),
  )
}
