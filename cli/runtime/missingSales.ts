import { resolveAssets } from '../../core/config/assets.ts'
import { facilitatorChoice } from '../../core/config/facilitator.ts'
import type { Config } from '../../core/config/types.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, type NetworkId } from '../../core/domain/network.ts'
import {
  accountedStates,
  chargedStates,
  type PaymentRecord,
  paymentStates,
} from '../../core/domain/payment.ts'
import { bookedNumbers } from '../../core/payments/bookedNumbers.ts'
import { transferScheme } from '../../core/payments/bookTransfer.ts'
import type {
  MissingSettlement,
  PastQuestion,
  PastVerdict,
  UnbookedNumbers,
} from '../../core/ports/chains/pastSettlements.ts'
import { bad, type Finding, good, warning } from './findings.ts'
import { openPastSettlements } from './open/openPastSettlements.ts'
import type { Stack } from './open/openStack.ts'

/** Newest payments that say who settled, and whom buyers paid. */
const NEWEST = 1_000
/** Settlements of a facilitator by which its addresses are learnt. */
const MOST_ALIKE = 100

export interface MissingSalesOptions {
  /** How far back the chains are read. */
  readonly days: number
  /** Payments of a network that are named one by one. */
  readonly shown: number
  onProgress?(text: string): void
}

/**
 * From the chain to the books: what this installation's keys have settled and no payment of the database has. That is how
 * sales look that an older copy of the database has forgotten.
 */
export async function missingSales(
  config: Config,
  stack: Pick<Stack, 'store' | 'chains' | 'ports'>,
  { days, shown, onProgress }: MissingSalesOptions,
): Promise<Finding[]> {
  const { store, ports } = stack
  const past = openPastSettlements(config, ports)
  const sinceMs = ports.clock.now() - days * 86_400_000
  const newest = await store.books.list({
    states: paymentStates.filter((state) => state !== 'claimed'),
    isNewestFirst: true,
    limit: NEWEST,
  })
  const findings: Finding[] = []
  for (const network of Object.keys(config.networks) as NetworkId[]) {
    const own = newest.filter((one) => one.network === network && one.scheme !== transferScheme)
    const who = settledHere(config, stack.chains, network, own)
    const verdict = await past.look(network, {
      ...(await questionOf(config, stack, network, own)),
      ...who,
      sinceMs,
      onProgress: (downToMs) =>
        onProgress?.(`Looking for sales on ${network} that the books lack, down to ${timeOf(downToMs)}`),
    })
    findings.push(...findingsOf(config, network, verdict, { sinceMs, shown, isOurs: who.senders.length > 0 }))
  }
  return findings
}

/** Whose transactions count: those of our keys, now and lately; where a facilitator settles, of whoever settled what is booked. */
function settledHere(
  config: Config,
  chains: Stack['chains'],
  network: NetworkId,
  newest: readonly PaymentRecord[],
): Pick<PastQuestion, 'senders' | 'sentAlike'> {
  if (facilitatorChoice(config.networks[network]!.facilitator).kind === 'remote') {
    const charged = newest.filter(({ state }) => (chargedStates as readonly string[]).includes(state))
    const transactions = new Set(charged.flatMap(({ transaction }) => transaction ?? []))
    return { senders: [], sentAlike: [...transactions].slice(0, MOST_ALIKE) }
  }
  const keys = chains.settler(network)?.keys ?? []
  const ids = [...keys.map(({ id }) => id), ...newest.flatMap(({ attempt }) => attempt?.settler ?? [])]
  const prefix = keyNameOf(network, '')
  const addresses = ids.flatMap((id) => (id.startsWith(prefix) ? id.slice(prefix.length) : []))
  return { senders: [...new Set(addresses)], sentAlike: [] }
}

async function questionOf(
  { fees, ...config }: Config,
  { store }: Pick<Stack, 'store'>,
  network: NetworkId,
  newest: readonly PaymentRecord[],
): Promise<Omit<PastQuestion, 'senders' | 'sentAlike' | 'sinceMs'>> {
  const chain = chainNameOf(network)
  const payees = [
    ...(await store.stores.payoutWallets(chain)),
    ...newest.map(({ payTo }) => payTo),
    ...(fees.payTo?.[chain] === undefined ? [] : [fees.payTo[chain]]),
  ]
  return {
    assets: resolveAssets(config).flatMap((one) => (one.network === network ? one.address : [])),
    payees: [...new Set(payees)],
    async missingAmong(keys) {
      const states = await store.books.statesOf(keys)
      return new Set(
        keys.filter((key) => {
          const state = states.get(key)
          return state === undefined || !accountedStates.includes(state)
        }),
      )
    },
    async unsoldAmong(transactions) {
      const sold = await store.purchases.soldIn(network, transactions)
      return transactions.filter((one) => !sold.has(one))
    },
    async numbersOf(sender) {
      return (await bookedNumbers(store.books, network, keyNameOf(network, sender))).numbers
    },
  }
}

/** What stands in the attempts that a key signs. */
const keyNameOf = (network: NetworkId, address: string): string =>
  `${chainNameOf(network) === 'solana' ? 'svm' : 'evm'}:${network}:${address}`

interface Shown {
  readonly sinceMs: number
  readonly shown: number
  /** By keys of our own; otherwise by a facilitator, which settles for others as well. */
  readonly isOurs: boolean
}

const subject = 'missing sales'

function findingsOf(
  config: Config,
  network: NetworkId,
  verdict: PastVerdict,
  { sinceMs, shown, isOurs }: Shown,
): Finding[] {
  if (verdict.status === 'not_configured')
    return [warning(subject, `${network}: not looked for, because the configuration has no rpcUrls there`)]
  if (verdict.status === 'unavailable')
    return [warning(subject, `${network}: could not be looked for: ${verdict.message}`)]
  const { missing, seen, byOthers, fromMs, numbers, fault } = verdict
  const span = `since ${timeOf(fromMs)}`
  const count = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 's'}`
  const found: Finding[] = []
  if (missing.length === 0)
    found.push(
      good(subject, `${network}: none; ${count(seen, 'payment')} ${span} were held against the books`),
    )
  else {
    const of = `${count(missing.length, 'payment')} of ${sumOf(config, network, missing)} in all, settled ${span},`
    const what = isOurs
      ? `${network}: ${of} are on chain by keys of this installation, and the books lack them. The database may be an older copy of itself. Their buyers have paid and their sellers have the money: see "Sales that the books lack" in docs/operations.md`
      : `${network}: ${of} are on chain by the facilitator's keys, and the books lack them. If the database may be an older copy of itself, see "Sales that the books lack" in docs/operations.md; otherwise a seller has another shop with the same wallet and facilitator`
    const say = isOurs ? bad : warning
    found.push(say(subject, what))
    for (const one of missing.slice(0, shown))
      found.push({ ...say(subject, wordsOf(config, network, one)), payment: paymentOf(network, one) })
    if (missing.length > shown)
      found.push(say(subject, `${network}: and ${missing.length - shown} more; --json names every one`))
  }
  // By themselves they are no sign of anything: a wallet may be paid by other shops.
  if (byOthers > 0 && missing.length + numbers.length > 0)
    found.push(
      warning(
        subject,
        `${network}: ${byOthers} more payments by authorization to sellers' wallets were sent by somebody else and are not in the books either: another shop's, or sales that an observer has settled`,
      ),
    )
  for (const one of numbers) found.push(...ofNumbers(network, one))
  if (fault !== undefined) {
    const back = fromMs > sinceMs ? `read back to ${timeOf(fromMs)} only: ` : 'not read whole: '
    found.push(warning(subject, `${network}: ${back}${fault}`))
  }
  return found
}

function ofNumbers(
  network: NetworkId,
  { sender, lastBooked, next, foreign, unread }: UnbookedNumbers,
): Finding[] {
  const found: Finding[] = []
  if (foreign > 0)
    found.push(
      warning(
        subject,
        `${network}: ${foreign} transactions of the settling key ${sender} settle nothing and are none of this installation's: somebody else signs with it`,
      ),
    )
  if (unread > 0)
    found.push(
      warning(
        subject,
        `${network}: the settling key ${sender} has sent ${next} transactions, the last in the books is number ${lastBooked}, and ${unread} of those after it are not accounted for: sales to wallets that the database does not know, numbers that were used for nothing, or somebody else who signs with it. The node does not say which; a block explorer does`,
      ),
    )
  return found
}

/** Of each token. */
function sumOf(config: Config, network: NetworkId, missing: readonly MissingSettlement[]): string {
  const byAsset = Map.groupBy(missing, ({ asset }) => asset)
  return [...byAsset]
    .map(([asset, all]) =>
      amountOf(
        config,
        network,
        asset,
        all.reduce((sum, one) => sum + one.amountAtomic, 0n),
      ),
    )
    .join(' and ')
}

function amountOf(config: Config, network: NetworkId, address: string, amountAtomic: bigint): string {
  const asset = resolveAssets(config).find((one) => one.network === network && one.address === address)!
  return `${formatAmount(amountAtomic, asset.decimals)} ${asset.symbol}`
}

function wordsOf(config: Config, network: NetworkId, one: MissingSettlement): string {
  const { asset, amountAtomic, payer, payTo, transaction } = one
  return `${network}: ${amountOf(config, network, asset, amountAtomic)} from ${payer} to ${payTo} in ${transaction}`
}

const paymentOf = (
  network: NetworkId,
  { transaction, asset, payer, payTo, amountAtomic }: MissingSettlement,
): NonNullable<Finding['payment']> => ({
  ...{ network, transaction, asset, payer, payTo },
  amountAtomic: amountAtomic.toString(),
})

/** To the minute, in UTC. */
const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
