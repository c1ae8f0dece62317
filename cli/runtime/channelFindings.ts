import { type ChannelOnChain, unclaimed, writtenOff } from '../../core/domain/channel.ts'
import { formatAmount } from '../../core/domain/money.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { AuditedChannel } from '../../core/ports/store/channelBooks.ts'
import { bad, type Finding, good, warning } from './findings.ts'
import type { Stack } from './open/openStack.ts'

/** Channels that are read from database and chain at once. */
const PAGE = 50
/** Maximum number of channels that are reported one by one. */
const MAX_SHOWN = 50

const subject = 'payment channels'

type Parts = Pick<Stack, 'store' | 'chains'>

/**
 * Compares the payment channels with the sums of their calls and with their contract: claimed ≤ charged ≤ signed ≤ balance, and the sums of the
 * calls are what was charged.
 */
export async function channelFindings(parts: Parts, queriesChains: boolean): Promise<Finding[]> {
  const { channelBooks } = parts.store
  const found: Finding[] = []
  let [count, owing] = [0, 0]
  const payees = new Set<string>()
  const unreadable = new Set<NetworkId>()
  for (let after: string | null = null; ; ) {
    const states = queriesChains
      ? await statesOf(parts, await channelBooks.audit(after, PAGE), { found, payees, unreadable })
      : new Map<string, ChannelOnChain>()
    // The rows are read after the contract, because a gateway that runs charges before it claims.
    const page: AuditedChannel[] = await channelBooks.audit(after, PAGE)
    if (page.length === 0) break
    after = page.at(-1)!.channel.id
    count += page.length
    owing += page.filter(({ channel }) => unclaimed(channel) > 0n).length
    for (const audited of page) found.push(...findingsOf(parts, audited, states.get(audited.channel.id)))
  }
  if (count === 0) return []
  for (const sentence of await channelBooks.wrongTotals()) found.push(bad(subject, sentence))
  const summary = good(subject, `${count} channels, ${owing} with unclaimed money`)
  const shown = found.slice(0, MAX_SHOWN)
  const more = found.length - shown.length
  if (more > 0) {
    const say = found.slice(MAX_SHOWN).some(({ ok }) => !ok) ? bad : warning
    shown.push(say(subject, `and ${more} more findings about channels`))
  }
  return [summary, ...shown]
}

/**
 * The states in the contract, by channel. Networks that cannot be read are reported, and once for each payee what is not paid out.
 *
 * @param payees those that were read
 * @param unreadable networks that could not be read; each would make every page wait for its timeouts
 */
async function statesOf(
  { chains }: Parts,
  page: readonly AuditedChannel[],
  {
    found,
    payees,
    unreadable,
  }: {
    readonly found: Finding[]
    readonly payees: Set<string>
    readonly unreadable: Set<NetworkId>
  },
) {
  const states = new Map<string, ChannelOnChain>()
  for (const [network, of] of Map.groupBy(page, ({ channel }) => channel.network)) {
    const chain = chains.channels.get(network)?.chain
    if (chain === undefined || unreadable.has(network)) continue
    try {
      const read = await chain.read(of.map(({ channel }) => channel.id))
      for (const [i, { channel }] of of.entries()) states.set(channel.id, read[i]!)
      for (const { channel } of of) {
        const { receiver, token } = channel.config
        const payee = `${network} ${receiver} ${token}`
        if (payees.has(payee)) continue
        payees.add(payee)
        const [left] = await chain.unsettled([channel.config])
        if (left! > 0n)
          found.push(
            warning(
              subject,
              `${network}: ${left} atomic units of ${token} were claimed for ${receiver} and not paid out yet. The next claim pays them out. If it fails, the wallet cannot receive the token. Any account can call settle(receiver, token) of the contract`,
            ),
          )
      }
    } catch (error) {
      unreadable.add(network)
      found.push(warning(subject, `${network}: the contract could not be read: ${(error as Error).message}`))
    }
  }
  return states
}

function findingsOf(
  { chains }: Parts,
  { channel, baseAtomic, summedAtomic }: AuditedChannel,
  onChain: ChannelOnChain | undefined,
): Finding[] {
  const { id, network, config, charged, signed, signature, totalClaimed, balance, storeId } = channel
  const asset = chains.assets.find(
    (one) => one.network === network && one.address.toLowerCase() === config.token,
  )
  const amount = (atomic: bigint) =>
    asset === undefined
      ? `${atomic} of ${config.token}`
      : `${formatAmount(atomic, asset.decimals, 2)} ${asset.symbol}`
  const name = `${network}: channel ${id} of store ${storeId}`
  const chain = chains.channels.get(network)?.chain
  const now = { ...channel, balance: onChain?.balance ?? balance }
  const [owes, lost] = [unclaimed(now), writtenOff(now)]
  const found: Finding[] = []
  const problem = (isTrue: boolean, text: string) => isTrue && found.push(bad(subject, `${name} ${text}`))

  problem(
    baseAtomic + summedAtomic !== charged,
    `was charged ${amount(charged - baseAtomic)}, and its calls add up to ${amount(summedAtomic)}. Its row or its sums were changed by another program, or the disk is damaged: restore a backup`,
  )
  problem(
    totalClaimed > charged || totalClaimed > balance,
    `has claimed ${amount(totalClaimed)} of ${amount(charged)} charged and a balance of ${amount(balance)}. Its row was changed by another program: restore a backup`,
  )
  problem(
    onChain !== undefined && onChain.totalClaimed > charged,
    `has claimed ${amount(onChain?.totalClaimed ?? 0n)} on chain, and the database has charged ${amount(charged)}. The database was restored from an older copy, or another gateway uses the same authorizer key. The gateway books the difference when it runs; stop the other one`,
  )
  if (asset === undefined)
    problem(
      true,
      `is in a token that is not configured, so its calls are not booked. Add the token to assets until the channel is claimed`,
    )
  if (lost > 0n)
    found.push(
      warning(
        subject,
        `${name} owes ${amount(lost)} more than its balance. The buyer has withdrawn before the claim, or a deposit has left the chain. This part is written off unless the buyer deposits again`,
      ),
    )
  if (charged <= totalClaimed) return found
  problem(
    signature === null,
    `owes ${amount(owes)} without a voucher, so nothing can be claimed. The next call of the buyer brings one`,
  )
  if (owes === 0n) return found
  problem(
    chain === undefined,
    `owes ${amount(owes)}, and channels are not configured on the network, so nothing is claimed. Add networks.${network}.channels with the key of ${config.receiverAuthorizer}`,
  )
  if (chain === undefined) return found
  problem(
    !chain.signsFor(config.receiverAuthorizer),
    `owes ${amount(owes)}, and the key of its authorizer ${config.receiverAuthorizer} is not among networks.${network}.channels.authorizerKeys, so nothing is claimed. Add the key after the others`,
  )
  problem(
    signature !== null &&
      (signed < charged || !chain.isSigned(config.payerAuthorizer, id, signed, signature)),
    `has a voucher that does not sign its total of ${amount(charged)}, so its claim would fail. Its row was changed by another program: restore a backup`,
  )
  return found
}
