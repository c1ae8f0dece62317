import { existsSync } from 'node:fs'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { isPaid, payoutFor, type ServedLink } from '../../core/domain/link.ts'
import { buildGeneration, GenerationError, type PluginEntry } from '../../core/kernel/generation.ts'
import { type LinkProgram, linkProgramOf } from '../../core/kernel/linkProgram.ts'
import { prototypeLinks } from '../../core/kernel/prototypeLinks.ts'
import { compileWhen } from '../../core/kernel/when.ts'
import { silentLog } from '../../core/ports/log.ts'
import { builtInPlugins } from '../../plugins/builtIn.ts'
import { openStack, type Stack } from './open/openStack.ts'
import { readConfig } from './readConfig.ts'

export interface CheckedLink extends Pick<LinkProgram, 'deliver' | 'log'> {
  /** `<seller>/<slug>`, or the kind of link when the store has none. */
  readonly link: string
  readonly price: string
  readonly settle: 'after' | 'before'
  readonly program: LinkProgram['steps']
}

export interface CheckedConfig {
  readonly links: readonly CheckedLink[]
  readonly warnings: readonly string[]
}

/**
 * Reads a configuration, sets its plugins up and compiles every link, without starting anything. A database gets this version's tables.
 *
 * @throws ConfigError, GenerationError, PluginLoadError: what does not hold, in words
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
    // A stand-in, so that checking does not make the secret's file.
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
      const { steps, deliver, log, problems } = linkProgramOf(generation, link)
      for (const problem of problems) {
        const others = linksByProblem.get(problem)
        if (others === undefined) linksByProblem.set(problem, [name])
        else others.push(name)
      }
      const { price, settle } = link
      return { link: name, price, settle, program: steps, deliver, log }
    })
    await generation.closePlugins()
    const wrong = [...linksByProblem].map(([problem, names]) => `${someOf(names)}: ${problem}`)
    if (wrong.length > 0) throw new GenerationError(wrong.join('\n'))
    const said = warnings.map((w) => `${file}:${w.line}: ${w.message}`)
    return { links, warnings: [...said, ...idlePatterns(plugins, served), ...unpayable(stack, served)] }
  } finally {
    await stack.close()
  }
}

const addressOf = ({ username, slug }: ServedLink): string => `${username}/${slug}`

/** One problem of a thousand links is one line. */
const someOf = (names: readonly string[]): string =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ')

/** That no paid link can be paid, and why: every call of a buyer would be refused. */
function unpayable({ chains }: Stack, served: readonly ServedLink[]): string[] {
  const settling = chains.settlers.map(({ network }) => network)
  if (settling.length === 0) {
    const why =
      chains.missing.length === 0
        ? 'no network with a facilitator is configured. Add one under networks'
        : `the facilitator of ${chains.missing.join(', ')} does not answer`
    return [`No paid link can be paid: ${why}.`]
  }
  const paid = served.filter(isPaid)
  if (paid.length === 0) return []
  if (paid.some(({ payout }) => settling.some((network) => payoutFor(payout, network) !== null))) return []
  return [
    `No paid link can be paid: none of their stores has a wallet on ${settling.join(', ')}. Set one in the dashboard, or with tollgate store payout.`,
  ]
}

/** Patterns of `when.links` that match no link that there is: a plugin that never runs looks like a rule that holds. */
function idlePatterns(plugins: readonly PluginEntry[], served: readonly ServedLink[]): string[] {
  if (served.length === 0) return []
  const addresses = served.map(addressOf)
  return plugins.flatMap(({ plugin, when }) =>
    (when?.links ?? []).flatMap((pattern) => {
      const applies = compileWhen({ links: [pattern] })
      if (served.some((link) => applies({ link, isPaid: isPaid(link), settle: link.settle }))) return []
      const meant = nearMiss(pattern, addresses)
      const hint = meant === undefined ? '' : ` Did you mean ${meant}?`
      return [`Plugin ${plugin.name}: no link matches ${pattern} of its when.links.${hint}`]
    }),
  )
}
