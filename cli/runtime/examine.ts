import type { Config } from '../../core/config/types.ts'
import { isPaid, type Payout } from '../../core/domain/link.ts'
import { chargedStates, refundLeftChain } from '../../core/domain/payment.ts'
import { transferScheme } from '../../core/payments/bookTransfer.ts'
import { payoutFaults, priceFaults } from '../../core/payments/payoutFaults.ts'
import { whereaboutsOf } from '../../core/payments/refundWatch.ts'
import { transferBackOf } from '../../core/payments/transferBackOf.ts'
import { createTransferWatch, type Looks } from '../../core/payments/transferWatch.ts'
import { silentLog } from '../../core/ports/log.ts'
import { bad, type Finding, good, report, warning } from './findings.ts'
import { missingSales } from './missingSales.ts'
import { openRefundProofs } from './open/openRefundProofs.ts'
import { openStack, type Stack } from './open/openStack.ts'
import { readConfig } from './readConfig.ts'

const CHAIN_LOOKUPS = 1_000
/** A payment that was put off so often, a minute or two long, is shown with its reason; so many of them at most. */
const PARKED_TRIES = 5
const PARKED_SHOWN = 20
/** How far back sales are looked for that the books lack, unless told otherwise. */
const CHAIN_DAYS = 2
/** Stores whose payout wallets are looked at in one call to a node. */
const STORES_AT_ONCE = 50

export interface ExamineOptions {
  readonly asksChains: boolean
  /** Leaves out days of the ledger that were found right before and of which nothing has moved since. Default: false. */
  readonly skipsJudged?: boolean
  /** How many days of the chains are held against the books. Default: 2. */
  readonly chainDays?: number
  /** Payments of a network that the books lack and that are named one by one. Default: all. */
  readonly missingShown?: number
  /** Hears what is being looked at, in words for a person. */
  onProgress?(text: string): void
}

/** Examines an installation: configuration, store, networks, ledger. What can't be read is a finding, not an error. */
export async function examine(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  options: ExamineOptions,
): Promise<readonly Finding[]> {
  const { asksChains, skipsJudged = false, chainDays = CHAIN_DAYS, missingShown, onProgress } = options
  const { config, warnings } = await readConfig(file, env)
  const stack = await openStack(config, { env, log: silentLog, runsJobs: false, worksOnPayments: false })
  try {
    const look = async (text: string, work: () => Promise<Finding[]>): Promise<Finding[]> => {
      onProgress?.(text)
      return work()
    }
    return [
      good('configuration', `${file} holds`),
      ...warnings.map((w) => warning('configuration', `line ${w.line}: ${w.message}`)),
      ...(await look('Writing to the store', () => storeFindings(stack))),
      ...(await look('Asking networks and facilitators', () => networkFindings(stack))),
      ...(asksChains ? await look("Looking at the sellers' wallets", () => payoutFindings(stack)) : []),
      ...(await look('Checking the ledger', () => ledgerFindings(stack, skipsJudged, onProgress))),
      ...(await look('Looking for payments that were put off', () => parkedFindings(stack))),
      ...(asksChains ? await look('Looking transfers up on chain', () => chainFindings(stack)) : []),
      ...(asksChains ? await look('Looking refunds up on chain', () => refundFindings(config, stack)) : []),
      ...(asksChains
        ? await look('Looking for sales that the books lack', () =>
            missingSales(config, stack, {
              ...{ days: chainDays, shown: missingShown ?? Number.POSITIVE_INFINITY },
              onProgress: (text) => onProgress?.(text),
            }),
          )
        : []),
    ]
  } finally {
    await stack.close()
  }
}

async function networkFindings({ chains }: Stack): Promise<Finding[]> {
  const missing = chains.missing.map((network) => bad(network, 'its facilitator does not answer'))
  if (chains.settlers.length + missing.length === 0)
    return [bad('networks', 'none is configured: paid links can not be paid')]
  const reports = await Promise.all(
    chains.settlers.map(async (settler) => {
      const problems = await settler.diagnose().catch((error: unknown) => [String((error as Error).message)])
      return report(settler.network, problems, 'answers, and settlements can be paid for')
    }),
  )
  return [...reports.flat(), ...missing]
}

/** Sellers whose wallets can't be paid: their offers are left out of the 402. */
async function payoutFindings({ store, chains }: Stack): Promise<Finding[]> {
  const payouts = new Map<string, Payout>()
  const found: Finding[] = []
  for (const link of await store.links.allServed()) {
    if (!isPaid(link)) continue
    payouts.set(link.username, link.payout)
    if (found.length >= CHAIN_LOOKUPS) continue
    for (const fault of priceFaults(chains, link.payout, link.price))
      found.push(warning(`link ${link.username}/${link.slug}`, fault))
  }
  const stores = [...payouts].slice(0, CHAIN_LOOKUPS)
  for (let i = 0; i < stores.length; i += STORES_AT_ONCE) {
    const faults = stores.slice(i, i + STORES_AT_ONCE).map(async ([username, payout]) => {
      for (const fault of await payoutFaults(chains, payout)) found.push(warning(`store ${username}`, fault))
    })
    await Promise.all(faults)
  }
  return found
}

const storeFindings = async ({ store }: Stack): Promise<Finding[]> =>
  report('store', await store.health(), 'answers and takes writes')

async function ledgerFindings(
  { store }: Stack,
  skipsJudged: boolean,
  onProgress?: (text: string) => void,
): Promise<Finding[]> {
  const count = (n: number) => n.toLocaleString('en-US')
  const { purchases, chargedPayments, unresolvedPayments, refundDue, skippedDays, broken, unbalanced } =
    await store.purchases.ledgerCheck(
      {
        onProgress: (rows, seen, all) =>
          onProgress?.(
            `Checking the ledger: ${count(seen)}${all === undefined ? '' : ` of ${count(all)}`} ${rows}`,
          ),
      },
      { skipsJudged },
    )
  const summary = `${purchases} purchases, ${chargedPayments} charged payments, ${refundDue} owed back`
  return [
    ...report(
      'ledger',
      [...broken, ...unbalanced.map((id) => `the entries of ${id} do not add up to zero`)],
      summary,
    ),
    ...(skippedDays === 0
      ? []
      : [
          good(
            'ledger',
            `${skippedDays} days were found right before and have not moved since: they were not read again (--all reads them)`,
          ),
        ]),
    unresolvedPayments === 0
      ? good('open payments', 'none')
      : warning('open payments', `${unresolvedPayments} are being settled or recovered`),
  ]
}

/** Payments that the recovery can do nothing about: with the reason of each, those first that were tried most often. */
async function parkedFindings({ store: { books } }: Stack): Promise<Finding[]> {
  const { total, rows } = await books.parked(PARKED_TRIES, PARKED_SHOWN)
  if (total === 0) return []
  const each = rows.map(({ purchaseId, state, tries, dueReason, network, sessionId }) =>
    warning(
      'open payments',
      `purchase ${purchaseId} on ${network} is ${state}, put off ${tries} times: ${dueReason ?? 'its outcome is not known'}${sessionId === null ? '' : `; session ${sessionId} waits for it`}`,
    ),
  )
  return total > rows.length
    ? [...each, warning('open payments', `and ${total - rows.length} more are put off`)]
    : each
}

/** Looks the newest purchases' transfers up on their chains. */
async function chainFindings({ store, chains, transferProofs, ports }: Stack): Promise<Finding[]> {
  const charged = await store.books.list({
    states: chargedStates,
    isNewestFirst: true,
    limit: CHAIN_LOOKUPS,
  })
  let seen = 0
  let unknown = 0
  const problems: string[] = []
  const transfers = createTransferWatch(transferProofs, ports.clock)
  const bySettler = Map.groupBy(charged, ({ network, scheme }): Looks | undefined =>
    scheme === transferScheme ? transfers : chains.settler(network, scheme),
  )
  for (const [settler, records] of bySettler) {
    const answers = await settler?.stillOnChain(records)
    for (const [i, { purchaseId, network }] of records.entries()) {
      const found = answers?.[i] ?? 'unknown'
      if (found === 'yes') seen++
      else if (found === 'unknown') unknown++
      else problems.push(`the transfer of purchase ${purchaseId} is not on ${network}`)
    }
  }
  const summary = `${seen} transfers are on chain${unknown > 0 ? `, ${unknown} could not be looked up` : ''}`
  return report('transfers', problems, summary)
}

/** Looks the newest refunds' transfers up: one that left the chain again leaves the buyer without the money. */
async function refundFindings(config: Config, { store, ports }: Stack): Promise<Finding[]> {
  const refunded = await store.books.list({
    states: ['refunded'],
    isNewestFirst: true,
    limit: CHAIN_LOOKUPS,
  })
  if (refunded.length === 0) return []
  const proofs = openRefundProofs(config, ports)
  let seen = 0
  const problems: string[] = []
  for (const record of refunded) {
    const [purchase, refund] = await Promise.all([
      store.purchases.find(record.purchaseId),
      store.purchases.refundOf(record.purchaseId),
    ])
    if (purchase === undefined || refund === undefined) continue
    const verdict = await proofs.prove(transferBackOf(purchase, record, refund.transaction))
    const where = whereaboutsOf(verdict, refund.refundedAtMs, ports.clock.now())
    const isTold = record.errorReason === refundLeftChain
    const said = `the refund ${refund.transaction} of purchase ${purchase.id}`
    if (where === 'missing')
      problems.push(
        `${said} is not on ${record.network}${isTold ? '; its seller was told to pay it again' : ''}`,
      )
    else if (where === 'stands' && isTold)
      problems.push(
        `${said} is back on ${record.network} after its seller was told to pay it again; two refunds stand if they did`,
      )
    else if (where === 'stands') seen++
  }
  const unknown = refunded.length - seen - problems.length
  const summary = `${seen} refunds are on chain${unknown > 0 ? `, ${unknown} could not be looked up` : ''}`
  return report('refunds', problems, summary)
}
