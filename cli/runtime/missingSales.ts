import { resolveAssets } from '../../core/config/assets.ts'
import { type Config, facilitatorChoice } from '../../core/config/schema.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { chainNameOf, type NetworkId } from '../../core/domain/network.ts'
import {
  accountedStates,
  chargedStates,
  type PaymentRecord,
  paymentStates,
} from '../../core/domain/payment.ts'
import { ledgerNonces } from '../../core/payments/ledgerNonces.ts'
import { transferScheme } from '../../core/payments/transfers.ts'
import type {
  MissingSettlement,
  PastQuery,
  PastVerdict,
  UnaccountedNonces,
} from '../../core/ports/chains/pastSettlements.ts'
import { bad, type Finding, good, warning } from './findings.ts'
import type { Stack } from './open/openStack.ts'

/** Number of latest payments that are read. They show which accounts settled, and to which wallets buyers paid. */
const NEWEST = 1_000
/** Maximum number of a facilitator's settlements from which its addresses are learned. */
const MAX_ALIKE = 100

export interface MissingSalesOptions {
  /** Number of days of the chains that are read. */
  readonly days: number
  /** Maximum number of payments per network that are listed. */
  readonly shown: number
  onProgress?(text: string): void
}

/**
 * Compares the chain with the ledger, and finds settlements of this installation's keys that the ledger lacks. A database that
 * was restored from an older copy lacks the sales since that copy.
 */
export async function missingSales(
  config: Config,
  stack: Pick<Stack, 'store' | 'chains' | 'ports'>,
  { days, shown, onProgress }: MissingSalesOptions,
): Promise<Finding[]> {
  const { store, ports } = stack
  const sinceMs = ports.clock.now() - days * 86_400_000
  const newest = await store.ledger.list({
    states: paymentStates.filter((state) => state !== 'claimed'),
    isNewestFirst: true,
    limit: NEWEST,
  })
  const findings: Finding[] = []
  for (const network of Object.keys(config.networks) as NetworkId[]) {
    const own = newest.filter((one) => one.network === network && one.scheme !== transferScheme)
    const ownSettlers = settledHere(config, stack.chains, network, own)
    const verdict = await stack.chains.pastSettlements.search(network, {
      ...(await approvalOf(config, stack, network, own)),
      ...ownSettlers,
      sinceMs,
      onProgress: (downToMs) =>
        onProgress?.(
          `Looking for sales on ${network} that are missing from the ledger, back to ${timeOf(downToMs)}`,
        ),
    })
    findings.push(
      ...findingsOf(config, network, verdict, { sinceMs, shown, isOurs: ownSettlers.senders.length > 0 }),
    )
  }
  return findings
}

/**
 * Senders whose transactions count as settlements of this installation. These are its current and recent keys. With a
 * facilitator, they are all senders that settled a recorded payment.
 */
function settledHere(
  config: Config,
  chains: Stack['chains'],
  network: NetworkId,
  newest: readonly PaymentRecord[],
): Pick<PastQuery, 'senders' | 'sentAlike'> {
  if (facilitatorChoice(config.networks[network]!.facilitator).kind === 'remote') {
    const charged = newest.filter(({ state }) => (chargedStates as readonly string[]).includes(state))
    const transactions = new Set(charged.flatMap(({ transaction }) => transaction ?? []))
    return { senders: [], sentAlike: [...transactions].slice(0, MAX_ALIKE) }
  }
  const keys = chains.settler(network)?.keys ?? []
  const ids = [...keys.map(({ id }) => id), ...newest.flatMap(({ attempt }) => attempt?.settler ?? [])]
  const prefix = keyNameOf(network, '')
  const addresses = ids.flatMap((id) => (id.startsWith(prefix) ? id.slice(prefix.length) : []))
  return { senders: [...new Set(addresses)], sentAlike: [] }
}

async function approvalOf(
  { fees, ...config }: Config,
  { store }: Pick<Stack, 'store'>,
  network: NetworkId,
  newest: readonly PaymentRecord[],
): Promise<Omit<PastQuery, 'senders' | 'sentAlike' | 'sinceMs'>> {
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
      const states = await store.ledger.statesOf(keys)
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
    async noncesOf(sender) {
      return (await ledgerNonces(store.ledger, network, keyNameOf(network, sender))).nonces
    },
  }
}

/** The name of a key in the ledger's attempts. */
const keyNameOf = (network: NetworkId, address: string): string =>
  `${chainNameOf(network) === 'solana' ? 'svm' : 'evm'}:${network}:${address}`

interface Shown {
  readonly sinceMs: number
  readonly shown: number
  /** True if this installation's keys settled the payments. False if a facilitator did, which also settles for other shops. */
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
    return [warning(subject, `${network}: not checked, because the configuration has no rpcUrls for it`)]
  if (verdict.status === 'unavailable')
    return [warning(subject, `${network}: could not be checked: ${verdict.message}`)]
  const { missing, seen, byOthers, fromMs, nonces: numbers, fault } = verdict
  const span = `since ${timeOf(fromMs)}`
  const count = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 's'}`
  const found: Finding[] = []
  if (missing.length === 0)
    found.push(
      good(subject, `${network}: none; ${count(seen, 'payment')} ${span} were compared with the ledger`),
    )
  else {
    const of = `${count(missing.length, 'payment')} of ${sumOf(config, network, missing)} in total, settled ${span},`
    const what = isOurs
      ? `${network}: ${of} were sent by this installation's keys but are missing from the ledger. The database may have been restored from an older copy. The buyers have paid and the sellers have the money: see docs/how-to/check-the-ledger.md#sales-missing-from-the-ledger`
      : `${network}: ${of} were sent by the facilitator's keys but are missing from the ledger. If the database may have been restored from an older copy, see docs/how-to/check-the-ledger.md#sales-missing-from-the-ledger; otherwise a seller has another shop with the same wallet and facilitator`
    const say = isOurs ? bad : warning
    found.push(say(subject, what))
    for (const one of missing.slice(0, shown))
      found.push({ ...say(subject, wordsOf(config, network, one)), payment: paymentOf(network, one) })
    if (missing.length > shown)
      found.push(say(subject, `${network}: and ${missing.length - shown} more; --json lists all of them`))
  }
  // A payment that another account sent proves nothing alone, because another shop may use the same wallet.
  if (byOthers > 0 && missing.length + numbers.length > 0)
    found.push(
      warning(
        subject,
        `${network}: ${byOthers} more payments by authorization to sellers' wallets were sent by other accounts and are missing from the ledger too: another shop's, or sales that an observer has settled`,
      ),
    )
  for (const one of numbers) found.push(...ofNumbers(network, one))
  if (fault !== undefined) {
    const back = fromMs > sinceMs ? `read only back to ${timeOf(fromMs)}: ` : 'not read completely: '
    found.push(warning(subject, `${network}: ${back}${fault}`))
  }
  return found
}

function ofNumbers(
  network: NetworkId,
  { sender, lastInLedger, next, foreign, unread }: UnaccountedNonces,
): Finding[] {
  const found: Finding[] = []
  if (foreign > 0)
    found.push(
      warning(
        subject,
        `${network}: ${foreign} transactions of the settling key ${sender} settle nothing and do not come from this installation, so another program signs with the key`,
      ),
    )
  if (unread > 0)
    found.push(
      warning(
        subject,
        `${network}: the settling key ${sender} has sent ${next} transactions, the last nonce in the ledger is ${lastInLedger}, and ${unread} of those after it are not accounted for: sales to wallets that are not in the database, nonces that were used for nothing, or another program that signs with the key. The node cannot tell which; a block explorer can`,
      ),
    )
  return found
}

/** One amount per token. */
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
  network,
  transaction,
  asset,
  payer,
  payTo,
  amountAtomic: amountAtomic.toString(),
})

/** A time to the minute, in UTC. */
const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
