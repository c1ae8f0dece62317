import { parseAmount } from '../../core/domain/money.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { AssetTable } from '../effects/assets.ts'
import type { Policy } from './policy.ts'

export interface ApplicablePolicy {
  /** The policy without the rules that nothing can be judged by any more. */
  readonly policy: Policy
  /** What those rules are about, in words. */
  readonly lost: readonly string[]
}

/**
 * What of a stored policy still means something. A policy is checked when it is stored, but the owner's own chains and
 * assets are in the configuration, and may be gone or have other decimals since. A rule that is left out allows nothing:
 * what no rule names is refused. One for fees would leave the usual fees in its place, so it stays and leaves no room.
 */
export function applicablePolicy(stored: Policy, { chains, bySymbol, native }: AssetTable): ApplicablePolicy {
  const lost: string[] = []
  const keep = (isKept: boolean, what: string): boolean => {
    if (!isKept) lost.push(what)
    return isKept
  }
  const assets = stored.assets.filter(({ chain, symbol, ...amounts }) => {
    const asset = chains.named(chain) === undefined ? undefined : bySymbol(chain, symbol)
    const isKnown = asset !== undefined && areReadable(Object.values(amounts), asset.decimals)
    return keep(isKnown, `${symbol} on ${chain}`)
  })
  const fees = stored.fees?.flatMap((rule) => {
    const { chain, ...amounts } = rule
    const isKnown = chains.named(chain) !== undefined
    if (keep(isKnown && areReadable(Object.values(amounts), native(chain).decimals), `fees on ${chain}`))
      return [rule]
    return isKnown ? [{ chain, perTransaction: '0', perDay: '0', autoApproveUpTo: '0' }] : []
  })
  const { recipients } = stored
  return {
    policy: {
      ...stored,
      assets,
      ...(fees !== undefined && { fees }),
      recipients:
        recipients === 'any'
          ? recipients
          : recipients.filter(({ chain }) => chains.named(chain) !== undefined),
    },
    lost,
  }
}

function areReadable(amounts: readonly (string | undefined)[], decimals: number): boolean {
  try {
    for (const amount of amounts) if (amount !== undefined) parseAmount(amount, decimals)
    return true
  } catch (error) {
    if (isTollgateError(error)) return false
    throw error
  }
}
