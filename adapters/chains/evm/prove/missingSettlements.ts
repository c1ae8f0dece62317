import type { NetworkId } from '../../../../core/domain/network.ts'
import { evmPaymentKey, evmPaymentKeyPrefix, type PaymentKey } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/hex.ts'
import { permit2Address, permit2Proxies, readSettleCall } from '../../../../core/evm/permit2.ts'
import { type EvmCall, readTransferEvent, topics } from '../../../../core/evm/token.ts'
import { findTransfer, type LogEntry, type Receipt } from '../../../../core/evm/transferProof.ts'
import type {
  MissingSettlement,
  PastQuery,
  UnaccountedNonces,
} from '../../../../core/ports/chains/pastSettlements.ts'
import { type LooseResponse, quantity } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { multicall3 } from '../settle/multicall.ts'
import { hex, receiptsOf } from './pastBlocks.ts'

/** A transaction in a block, with its sender and its call. */
export interface SentTransaction {
  /** Lower case, as are `from` and `to`. */
  readonly transaction: string
  readonly from: string
  /** Null when the transaction created a contract. */
  readonly to: string | null
  /** The sender's nonce. */
  readonly nonce: number
  readonly input: string
  readonly block: number
}

/** Reads which of these transactions the node has in a block. Never rejects. */
export async function sentTransactions(rpc: Rpc, hashes: readonly string[]): Promise<SentTransaction[]> {
  const asked = [...new Set(hashes)]
  const responses = await rpc.many(
    asked.map((hash) => ({ method: 'eth_getTransactionByHash', params: [hash] })),
  )
  return responses.flatMap((response, i) => {
    const sent = readSent(response)
    return sent === undefined || sent.transaction !== asked[i]!.toLowerCase() ? [] : sent
  })
}

/** Undefined if the response is no transaction, or if the transaction is in no block. */
export function readSent(response: LooseResponse | undefined): SentTransaction | undefined {
  if (!response?.ok || typeof response.result !== 'object' || response.result === null) return
  const { hash, from, to, nonce, input, blockNumber } = response.result as Readonly<Record<string, unknown>>
  if (typeof hash !== 'string' || typeof from !== 'string' || typeof input !== 'string') return
  try {
    return {
      transaction: hash.toLowerCase(),
      from: from.toLowerCase(),
      input,
      to: typeof to === 'string' ? to.toLowerCase() : null,
      nonce: Number(quantity(nonce)),
      block: Number(quantity(blockNumber)),
    }
  } catch {
    return
  }
}

/** Payments that transactions of this installation settled and that the ledger lacks. */
export interface MissingSettlements {
  readonly all: readonly MissingSettlement[]
  /** Transactions that the node did not have. */
  readonly unread: number
  /**
   * Whether such a settlement used this nonce of a sender.
   * @param sender in lower case
   */
  accountsFor(sender: string, nonce: number): boolean
  /**
   * Reads the payments that these transactions settled, to any payee, and keeps those that the ledger lacks.
   * @returns how many payments each transaction settled; undefined if the node does not have its receipt
   */
  read(sent: readonly SentTransaction[]): Promise<(number | undefined)[]>
  /** Records that this many transactions could not be read. */
  skipped(transactions: number): void
}

export function createMissingSettlements(
  network: NetworkId,
  rpc: Rpc,
  { assets, missingAmong }: Pick<PastQuery, 'assets' | 'missingAmong'>,
): MissingSettlements {
  const byKey = new Map<PaymentKey, MissingSettlement>()
  const accounted = new Set<string>()
  let unread = 0
  const nameOf = (sender: string, nonce: number) => `${sender} ${nonce}`

  return {
    get all() {
      return [...byKey.values()]
    },
    get unread() {
      return unread
    },
    accountsFor: (sender, nonce) => accounted.has(nameOf(sender, nonce)),
    skipped: (transactions) => void (unread += transactions),
    async read(sent) {
      const receipts = await receiptsOf(
        rpc,
        sent.map(({ transaction }) => transaction),
      )
      const settled = sent.map(({ transaction, to, input }) => {
        const receipt = receipts.get(transaction)
        if (receipt === undefined) return undefined
        const call = { to: to ?? '', data: input }
        const byPermit = settledByPermit(network, assets, transaction, call)
        return byPermit && isIn(receipt, byPermit, call)
          ? [byPermit.payment]
          : authorizedTransfers(network, receipt, assets)
      })
      const missing = await missingAmong(settled.flatMap((all = []) => all.map(({ key }) => key)))
      for (const [i, { from, nonce }] of sent.entries()) {
        const lacking = settled[i]?.filter(({ key }) => missing.has(key)) ?? []
        if (settled[i] === undefined) unread++
        if (lacking.length > 0) accounted.add(nameOf(from, nonce))
        for (const one of lacking) byKey.set(one.key, one)
      }
      return settled.map((all) => all?.length)
    },
  }
}

/**
 * Every transfer by authorization (EIP-3009) in the events of some tokens. Such a transfer has an `AuthorizationUsed` event, and
 * the next event of the same token in the transaction is a transfer from the same wallet. `findTransfer` has the same rule.
 *
 * @param assets addresses in any case
 * @returns in the order of the events
 */
function authorizedTransfers(
  network: NetworkId,
  receipt: Receipt,
  assets: readonly string[],
): MissingSettlement[] {
  if (receipt.status !== '0x1') return []
  return assets.flatMap((asset) => {
    const tokenLogs = receipt.logs
      .filter((log) => log.removed !== true && log.address.toLowerCase() === asset.toLowerCase())
      .sort((a, b) => Number(a.logIndex) - Number(b.logIndex))
    return tokenLogs.flatMap((use, i) => settledBy(network, asset, use, tokenLogs[i + 1]) ?? [])
  })
}

/** The payment that these two events prove, or undefined if they prove none. */
export function settledBy(
  network: NetworkId,
  asset: string,
  use: LogEntry,
  next: LogEntry | undefined,
): MissingSettlement | undefined {
  const [name, payer, nonce] = use.topics
  const moved = next && readTransferEvent(next)
  if (name !== topics.authorizationUsed || payer === undefined || nonce === undefined) return
  if (moved === undefined || `0x${moved.from}`.toLowerCase() !== payer.toLowerCase()) return
  const from = walletOf(moved.from)
  return {
    key: evmPaymentKey(evmPaymentKeyPrefix(network, asset), from, nonce.toLowerCase()),
    transaction: use.transactionHash.toLowerCase(),
    asset,
    payer: checksumAddress(from),
    payTo: checksumAddress(walletOf(moved.to)),
    amountAtomic: moved.amountAtomic,
  }
}

/** A payment by Permit2 that a call makes if it succeeds. */
interface PermitSettlement {
  readonly payment: MissingSettlement
  readonly nonce: string
}

/**
 * The payment that a call of a proxy of Permit2 makes. Undefined for another call, or if its token is not one of these.
 *
 * @param assets addresses in any case
 */
export function settledByPermit(
  network: NetworkId,
  assets: readonly string[],
  transaction: string,
  call: EvmCall,
): PermitSettlement | undefined {
  const settled = readSettleCall(call)
  const asset = settled && assets.find((one) => one.toLowerCase() === settled.token)
  if (settled === undefined || asset === undefined) return undefined
  const { from, to, nonce, amountAtomic } = settled
  const payment = {
    key: evmPaymentKey(evmPaymentKeyPrefix(network, permit2Address), from, nonce),
    transaction: transaction.toLowerCase(),
    asset,
    payer: checksumAddress(from),
    payTo: checksumAddress(to),
    amountAtomic,
  }
  return { payment, nonce }
}

/** Whether the events of the call's transaction prove the payment. */
const isIn = (receipt: Receipt, { payment, nonce }: PermitSettlement, call: EvmCall): boolean =>
  findTransfer({ ...receipt, call }, { ...payment, nonce }) !== undefined

/**
 * Lower-case wallet address in an event's word.
 * @param word 32 bytes, hex without 0x
 */
const walletOf = (word: string): string => `0x${word.slice(24).toLowerCase()}`

/** Nonces of one sender that are checked, highest first. */
const MAX_NONCES = 2_000

export interface UnaccountedNoncesDeps {
  readonly rpc: Rpc
  readonly question: Pick<PastQuery, 'assets' | 'noncesOf'>
  readonly missing: MissingSettlements
  /** The search leaves out transactions before this block. */
  readonly oldest: number
}

/**
 * Checks the nonces of a sender that no payment in the ledger has. They reveal sales to wallets that are not in the ledger. Nonces
 * have no gaps, so they also show whether more sales can be missing. Only some nodes, such as reth and anvil, can return the
 * transaction with a given nonce (`eth_getTransactionBySenderAndNonce`).
 *
 * @param sender in lower case
 * @param next its next nonce on the chain, read before the ledger
 * @returns undefined when every nonce is accounted for, or the ledger has no nonces of the sender
 */
export async function unaccountedNonces(
  { rpc, question, missing, oldest }: UnaccountedNoncesDeps,
  sender: string,
  next: number,
): Promise<UnaccountedNonces | undefined> {
  const ledgerNonces = await question.noncesOf(sender)
  if (ledgerNonces === undefined || ledgerNonces.size === 0) return undefined
  const [first, lastInLedger] = [Math.min(...ledgerNonces), Math.max(...ledgerNonces)]
  const open: number[] = []
  for (let nonce = next - 1; nonce >= first && open.length < MAX_NONCES; nonce--)
    if (!ledgerNonces.has(nonce) && !missing.accountsFor(sender, nonce)) open.push(nonce)
  if (open.length === 0) return undefined

  const sent = await named(rpc, sender, open)
  const recent = sent.filter((one) => one !== undefined && one.block >= oldest) as SentTransaction[]
  const settled = await missing.read(recent)
  const assets = question.assets.map((asset) => asset.toLowerCase())
  // Transactions of this installation are fillers (empty transactions that use up a nonce), batches, or calls of a token or a proxy
  // of Permit2.
  const own = new Set([sender, multicall3, ...Object.values(permit2Proxies), ...assets])
  const isOurs = ({ to }: SentTransaction) => own.has(to ?? '')
  const foreign = recent.filter((one, i) => settled[i] === 0 && !isOurs(one)).length
  const unread = open.filter((nonce, i) => nonce > lastInLedger && sent[i] === undefined).length
  return foreign + unread === 0 ? undefined : { sender, lastInLedger, next, foreign, unread }
}

/** The transactions with these nonces that the node returns. */
async function named(
  rpc: Rpc,
  sender: string,
  nonces: readonly number[],
): Promise<(SentTransaction | undefined)[]> {
  const calls = nonces.map((nonce) => ({
    method: 'eth_getTransactionBySenderAndNonce',
    params: [sender, hex(nonce)],
  }))
  // The function probes with one request first, so that a node without the method gets no more.
  const [probe] = await rpc.many(calls.slice(0, 1))
  const rest = probe!.ok ? await rpc.many(calls.slice(1)) : []
  return nonces.map((nonce, i) => {
    const sent = readSent(i === 0 ? probe : rest[i - 1])
    return sent?.from === sender && sent.nonce === nonce ? sent : undefined
  })
}
