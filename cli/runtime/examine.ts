import { isPaid, type Payout } from '../../core/domain/link.ts'
import { chargedStates } from '../../core/domain/payment.ts'
import type { Refund } from '../../core/domain/purchase.ts'
import { payoutFaults, priceFaults } from '../../core/offers/offers.ts'
import { hasRefund, whereaboutsOf } from '../../core/payments/refundWatch.ts'
import { transferScheme } from '../../core/payments/transfers.ts'
import { createTransferWatch, type SettlerQueries } from '../../core/payments/transferWatch.ts'
import { transferBackOf } from '../../core/ports/chains/refundProofs.ts'
import { silentLog } from '../../core/ports/log.ts'
import { channelFindings } from './channelFindings.ts'
import { bad, type Finding, good, report, warning } from './findings.ts'
import { missingSales } from './missingSales.ts'
import { openStack, type Stack } from './open/openStack.ts'
import { readConfig } from './readConfig.ts'

const CHAIN_LOOKUPS = 1_000
/** Number of postponements after which a payment is reported. Each postponement takes a minute or two. */
const PARKED_TRIES = 5
/** Maximum number of postponed payments that are reported with their reason. */
const PARKED_SHOWN = 20
/** Default number of days of the chains that are searched for sales that the ledger lacks. */
const CHAIN_DAYS = 2
/** Number of stores whose payout wallets are checked in one call to a node. */
const STORES_AT_ONCE = 50

export interface ExamineOptions {
  readonly queriesChains: boolean
  /**
   * True to skip days of the ledger that an earlier run checked without findings and that have not changed since. Default
   * false.
   */
  readonly skipsCheckedDays?: boolean
  /** Number of days of the chains that are compared with the ledger. Default 2. */
  readonly chainDays?: number
  /** Maximum number of payments per network that are listed as missing from the ledger. Default: all. */
  readonly missingShown?: number
  /** Called with a description of what is being checked. */
  onProgress?(text: string): void
}

/**
 * Checks an installation, which is its configuration, database, networks and ledger. If a part cannot be read, that is a
 * finding and not an error.
 */
export async function examine(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  options: ExamineOptions,
): Promise<readonly Finding[]> {
  const {
    queriesChains,
    skipsCheckedDays = false,
    chainDays = CHAIN_DAYS,
    missingShown,
    onProgress,
  } = options
  const { config, warnings } = await readConfig(file, env)
  const stack = await openStack(config, { env, log: silentLog, runsJobs: false, worksOnPayments: false })
  try {
    const check = async (text: string, work: () => Promise<Finding[]>): Promise<Finding[]> => {
      onProgress?.(text)
      return work()
    }
    return [
      good('configuration', `${file} is valid`),
      ...warnings.map((w) => warning('configuration', `line ${w.line}: ${w.message}`)),
      ...(await check('Writing to the database', () => storeFindings(stack))),
      ...(await check('Checking networks and facilitators', () => networkFindings(stack))),
      ...(queriesChains ? await check("Checking the sellers' wallets", () => payoutFindings(stack)) : []),
      ...(await check('Checking the ledger', () => ledgerFindings(stack, skipsCheckedDays, onProgress))),
      ...(await check('Checking payment channels', () => channelFindings(stack, queriesChains))),
      ...(await check('Looking for deferred payments', () => parkedFindings(stack))),
      ...(queriesChains ? await check('Looking up transfers on chain', () => chainFindings(stack)) : []),
      ...(queriesChains ? await check('Looking up refunds on chain', () => refundFindings(stack)) : []),
      ...(queriesChains
        ? await check('Looking for sales missing from the ledger', () =>
            missingSales(config, stack, {
              days: chainDays,
              shown: missingShown ?? Number.POSITIVE_INFINITY,
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
  const missing = chains.missing.map((network) =>
    bad(network, 'the facilitator of the network does not respond'),
  )
  if (chains.settlers.length + missing.length === 0)
    return [bad('networks', 'no network is configured, so paid links cannot be paid')]
  const reports = await Promise.all(
    chains.settlers.map(async (settler) => {
      const problems = await settler.diagnose().catch((error: unknown) => [String((error as Error).message)])
      return report(settler.network, problems, 'works, and settlements can be paid for')
    }),
  )
  return [...reports.flat(), ...missing]
}

/** Sellers whose wallets cannot receive payments. The 402 does not contain offers of these wallets. */
async function payoutFindings({ store, chains }: Stack): Promise<Finding[]> {
  const payouts = new Map<string, Payout>()
  const found: Finding[] = []
  for (const link of await store.links.allServed()) {
    if (!isPaid(link)) continue
    payouts.set(link.username, link.payout)
    if (found.length >= CHAIN_LOOKUPS) continue
    for (const fault of priceFaults(chains, link))
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
  report('database', await store.health(), 'reachable and writable')

async function ledgerFindings(
  { store }: Stack,
  skipsCheckedDays: boolean,
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
      { skipsCheckedDays },
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
            `${skippedDays} days passed before and have not changed, so they were skipped (--all checks them again)`,
          ),
        ]),
    unresolvedPayments === 0
      ? good('open payments', 'none')
      : warning('open payments', `${unresolvedPayments} are being settled or recovered`),
  ]
}

/** Payments whose outcome recovery cannot determine, and why. The payments with the most attempts come first. */
async function parkedFindings({ store: { ledger } }: Stack): Promise<Finding[]> {
  const { total, rows } = await ledger.parked(PARKED_TRIES, PARKED_SHOWN)
  if (total === 0) return []
  const each = rows.map(({ purchaseId, state, tries, dueReason, network, sessionId }) =>
    warning(
      'open payments',
      `purchase ${purchaseId} on ${network} is ${state}, deferred ${tries} times: ${dueReason ?? 'its outcome is unknown'}${sessionId === null ? '' : `; payment session ${sessionId} waits for it`}`,
    ),
  )
  return total > rows.length
    ? [...each, warning('open payments', `and ${total - rows.length} more were deferred`)]
    : each
}

/** Looks up the transfers of the newest purchases on their chains. */
async function chainFindings({ store, chains, ports }: Stack): Promise<Finding[]> {
  const charged = await store.ledger.list({
    states: chargedStates,
    isNewestFirst: true,
    limit: CHAIN_LOOKUPS,
  })
  let seen = 0
  let unknown = 0
  const problems: string[] = []
  const transfers = createTransferWatch(chains.transferProofs, ports.clock)
  // A call that cost nothing has no transfer.
  const moved = charged.filter(({ chargedAtomic }) => chargedAtomic !== 0n)
  const bySettler = Map.groupBy(moved, ({ network, scheme }): SettlerQueries | undefined =>
    scheme === transferScheme ? transfers : chains.settler(network, scheme),
  )
  for (const [settler, records] of bySettler) {
    const responses = await settler?.stillOnChain(records)
    for (const [i, { purchaseId, network }] of records.entries()) {
      const found = responses?.[i] ?? 'unknown'
      if (found === 'yes') seen++
      else if (found === 'unknown') unknown++
      else problems.push(`the transfer of purchase ${purchaseId} is not on ${network}`)
    }
  }
  const summary = `${seen} transfers are on chain${unknown > 0 ? `, ${unknown} could not be looked up` : ''}`
  return report('transfers', problems, summary)
}

/**
 * Checks the transfers of the newest refunds on their chains. If a chain dropped a refund, its buyer is not refunded. Two
 * transfers for one refund pay its buyer twice.
 */
async function refundFindings({ store, chains, ports }: Stack): Promise<Finding[]> {
  const newest = (state: 'refunded' | 'refund_due') =>
    store.ledger.list({ states: [state], isNewestFirst: true, limit: CHAIN_LOOKUPS })
  const records = (await Promise.all([newest('refunded'), newest('refund_due')])).flat().filter(hasRefund)
  if (records.length === 0) return []
  let [seen, unknown] = [0, 0]
  const problems: string[] = []
  for (const record of records) {
    const { purchaseId: id, network } = record
    const [purchase, refund, lost] = await Promise.all([
      store.purchases.find(id),
      store.purchases.refundOf(id),
      store.purchases.lostRefundsOf(id),
    ])
    if (purchase === undefined) continue
    const whereIs = async (one: Refund) => {
      const verdict = await chains.refundProofs.prove(transferBackOf(purchase, record, one.transaction))
      return whereaboutsOf(verdict, one.refundedAtMs, ports.clock.now())
    }
    const refundText = ({ transaction }: Refund) => `the refund ${transaction} of purchase ${id}`
    const where = refund === undefined ? undefined : await whereIs(refund)
    if (where === 'missing') problems.push(`${refundText(refund!)} is not on ${network}`)
    else if (where === 'stands') seen++
    else if (where === 'unknown') unknown++
    for (const one of lost) {
      if ((await whereIs(one)) === 'stands')
        problems.push(
          `${refundText(one)} was dropped from ${network} and is back${where === 'stands' ? `; ${refund!.transaction} replaced it, so the buyer was paid twice` : ''}`,
        )
      else if (refund === undefined)
        problems.push(`${refundText(one)} is not on ${network}, and the seller was told to pay it again`)
    }
  }
  const summary = `${seen} refunds are on chain${unknown > 0 ? `, ${unknown} could not be looked up` : ''}`
  return report('refunds', problems, summary)
}
