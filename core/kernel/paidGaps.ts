import type { Slot } from '../plugin/exchange.ts'
import type { AnyGatewayPlugin } from '../plugin/gateway.ts'
import type { Step } from './program.ts'

/** What has to be written in the program of a paid link, and which built-in plugin does it. */
const needed: readonly (readonly [Slot, string])[] = [
  ['payment', 'x402'],
  ['claim', 'replay-guard'],
  ['answer', 'upstream'],
  ['settlement', 'x402'],
  ['purchase', 'purchase-record'],
]

/**
 * What the program of a paid link lacks. Without one of these a call would be served unpaid, served twice, or charged
 * and not recorded.
 *
 * @returns `nothing` when it is whole; `everything` when it takes no payment at all, as on a gateway of free links only
 */
export function paidGaps(
  steps: readonly Step[],
  plugins: ReadonlyMap<string, AnyGatewayPlugin>,
): 'nothing' | 'everything' | readonly string[] {
  const written = new Set(steps.flatMap((s) => plugins.get(s.plugin)?.slots?.[s.phase]?.writes ?? []))
  const missing = needed.filter(([slot]) => !written.has(slot))
  if (missing.length === 0) return 'nothing'
  const takesAny = needed.some(([slot]) => slot !== 'answer' && written.has(slot))
  if (!takesAny) return 'everything'
  return missing.map(
    ([slot, builtIn]) =>
      `No plugin writes ${slot} for a paid link: a call would not be paid for as it should. Add ${builtIn}, or a plugin of your own that does its part.`,
  )
}
