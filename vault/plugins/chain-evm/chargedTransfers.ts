import { readSettleCall, type SettledPermit } from '../../../core/evm/permit2.ts'
import { addressWord, type EvmCall, readTransferEvent, topics } from '../../../core/evm/token.ts'
import { isLogEntry, type LogEntry, readReceipt } from '../../../core/evm/transferProof.ts'
import { isRpcError, quantity, RpcUnreachable, resultOf } from '../../../core/rpc/post.ts'
import type { Rpc } from '../../../core/rpc/rpc.ts'
import { isObject } from '../../../core/x402/strictJson.ts'
import type { FinalBlock, OpenClaim, PaymentClaim, ProvedCharge } from '../../effects/payment.ts'

/** Blocks per `eth_getLogs`. Providers limit the number, and the strictest common limit is 1,000. */
const BLOCKS_PER_QUERY = 1_000
/** Maximum blocks of one search. On Base, a day has 43,200. */
const MAX_BLOCKS = 50_000
/** How far a search goes back if no final block was known when the payment was signed. On Base, these blocks take almost 3 hours. */
const MAX_BLOCKS_WITHOUT_START = 5_000
/** Maximum transactions of one search. It keeps a check short. */
const MAX_TRANSACTIONS = 1_000

/** A transfer from payer to payee, as the token's event reports it. */
interface Transfer {
  readonly transaction: string
  readonly block: number
  readonly logIndex: number
  readonly amountAtomic: bigint
}

/**
 * Finds what payments by `upto` have cost whose nonces are used, by the token's transfers from the payer to the payee up to the final
 * block.
 *
 * If a transaction calls the proxy with exactly this permit, the call has the amount. Otherwise the facilitator may be a contract that
 * charged the permit, and its call may have any form. Then no more was charged than all transfers of those blocks that are not known to
 * be other payments. If there are none, the payer has invalidated the nonce, or used it for another permit.
 *
 * @param claims of one payer, payee and token
 * @returns undefined if the node did not prove anything
 */
export async function chargesByTransfers(
  rpc: Rpc,
  claims: readonly OpenClaim[],
  final: FinalBlock,
): Promise<ProvedCharge[] | undefined> {
  try {
    const [{ claim }] = claims as [OpenClaim]
    const starts = claims.map(({ sinceBlock }) => startOf(sinceBlock, final))
    const transfers = await readTransfers(rpc, claim, Math.min(...starts.map(({ from }) => from)), final)
    const calls = await readCalls(rpc, transfers)
    const found = claims.map(({ claim }) => ownCharge(claim, transfers, calls))
    const unknown = found.includes(undefined) ? await unexplained(rpc, claim, transfers, calls) : []
    return found.map((own, i): ProvedCharge => {
      if (own !== undefined) return own
      const most = BigInt(claims[i]!.claim.most)
      const { from, isWhole } = starts[i]!
      if (!isWhole) return { charged: most, transaction: null }
      const moved = unknown
        .filter(({ block }) => block >= from)
        .reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n)
      return { charged: moved < most ? moved : most, transaction: null }
    })
  } catch (error) {
    if (isRpcError(error)) return undefined
    throw error
  }
}

/** Where the search for a payment starts, and whether it then has every block in which the payment may have been charged. */
function startOf(sinceBlock: number | null, { number }: FinalBlock): { from: number; isWhole: boolean } {
  // A node that named a newer block as final has contradicted itself.
  if (sinceBlock === null || sinceBlock > number)
    return { from: Math.max(0, number - MAX_BLOCKS_WITHOUT_START + 1), isWhole: false }
  const oldest = Math.max(0, number - MAX_BLOCKS + 1)
  return { from: Math.max(oldest, sinceBlock + 1), isWhole: sinceBlock + 1 >= oldest }
}

/** @throws {RpcUnreachable} if the node did not return all of them */
async function readTransfers(
  rpc: Rpc,
  { asset, payer, payTo }: PaymentClaim,
  from: number,
  { number }: FinalBlock,
): Promise<Transfer[]> {
  const path = [topics.transfer, `0x${addressWord(payer)}`, `0x${addressWord(payTo)}`]
  const queries = Array.from({ length: Math.ceil((number - from + 1) / BLOCKS_PER_QUERY) }, (_, i) => {
    const first = from + i * BLOCKS_PER_QUERY
    return { first, last: Math.min(number, first + BLOCKS_PER_QUERY - 1) }
  })
  const responses = await rpc.many(
    queries.map(({ first, last }) => ({
      method: 'eth_getLogs',
      params: [{ address: asset, fromBlock: hex(first), toBlock: hex(last), topics: path }],
    })),
  )
  const transfers = queries.flatMap(({ first, last }, i) => {
    const logs = resultOf(responses[i])
    if (!Array.isArray(logs)) throw garbage('eth_getLogs')
    return logs.map((log): Transfer => {
      const moved = isLogEntry(log) && log.removed !== true ? readTransferEvent(log) : undefined
      const block = moved && wholeNumber(log.blockNumber)
      const isAsked =
        moved?.from === addressWord(payer) &&
        moved.to === addressWord(payTo) &&
        log.address.toLowerCase() === asset.toLowerCase() &&
        block! >= first &&
        block! <= last
      if (!isAsked) throw garbage('eth_getLogs')
      return {
        transaction: log.transactionHash.toLowerCase(),
        block: block!,
        logIndex: Number(log.logIndex),
        amountAtomic: moved.amountAtomic,
      }
    })
  })
  const count = new Set(transfers.map(({ transaction }) => transaction)).size
  if (count > MAX_TRANSACTIONS) throw new RpcUnreachable('there are too many transfers to read')
  return transfers
}

/** The calls of transactions that the proxies understand, by hash. @throws {RpcUnreachable} if the node does not have them all */
async function readCalls(rpc: Rpc, transfers: readonly Transfer[]): Promise<Map<string, SettledPermit>> {
  const hashes = [...new Set(transfers.map(({ transaction }) => transaction))]
  const method = 'eth_getTransactionByHash'
  const responses = await rpc.many(hashes.map((hash) => ({ method, params: [hash] })))
  const calls = new Map<string, SettledPermit>()
  for (const [i, hash] of hashes.entries()) {
    const call = readCall(resultOf(responses[i]), hash)
    const settled = call && readSettleCall(call)
    if (settled !== undefined) calls.set(hash, settled)
  }
  return calls
}

/** Undefined for a transaction that creates a contract. */
function readCall(result: unknown, hash: string): EvmCall | undefined {
  if (!isObject(result) || String(result['hash']).toLowerCase() !== hash)
    throw garbage('eth_getTransactionByHash')
  const { to, input } = result
  if (typeof input !== 'string' || !/^0x(?:[0-9a-f]{2})*$/i.test(input))
    throw garbage('eth_getTransactionByHash')
  if (to === null) return undefined
  if (typeof to !== 'string' || !/^0x[0-9a-f]{40}$/i.test(to)) throw garbage('eth_getTransactionByHash')
  return { to, data: input }
}

/** The charge if a transaction calls the proxy with exactly this permit. A nonce is used once, so there is one such transaction. */
function ownCharge(
  claim: PaymentClaim,
  transfers: readonly Transfer[],
  calls: ReadonlyMap<string, SettledPermit>,
): ProvedCharge | undefined {
  const own = transfers.find(({ transaction, amountAtomic }) => {
    const call = calls.get(transaction)
    return call !== undefined && isPermitOf(call, claim) && call.amountAtomic === amountAtomic
  })
  return own && { charged: own.amountAtomic, transaction: own.transaction }
}

const isPermitOf = (call: SettledPermit, claim: PaymentClaim): boolean =>
  isOnPath(call, claim) &&
  call.facilitator === claim.facilitator!.toLowerCase() &&
  call.nonce === claim.nonce &&
  call.value === claim.most &&
  call.validBefore === claim.validBefore

const isOnPath = ({ token, from, to }: SettledPermit, { asset, payer, payTo }: PaymentClaim): boolean =>
  token === asset.toLowerCase() && from === payer.toLowerCase() && to === payTo.toLowerCase()

/**
 * The transfers that may be any payment. A transaction that calls the proxy is one transfer of the permit in its call, and a transfer
 * that directly follows AuthorizationUsed is a payment by EIP-3009.
 *
 * @throws {RpcUnreachable} if a receipt cannot be read
 */
async function unexplained(
  rpc: Rpc,
  claim: PaymentClaim,
  transfers: readonly Transfer[],
  calls: ReadonlyMap<string, SettledPermit>,
): Promise<Transfer[]> {
  const rest = [...Map.groupBy(transfers, ({ transaction }) => transaction)].flatMap(([hash, own]) => {
    const call = calls.get(hash)
    const at =
      call !== undefined && isOnPath(call, claim)
        ? own.findIndex(({ amountAtomic }) => amountAtomic === call.amountAtomic)
        : -1
    return own.filter((_, i) => i !== at)
  })
  const hashes = [...new Set(rest.map(({ transaction }) => transaction))]
  const method = 'eth_getTransactionReceipt'
  const responses = await rpc.many(hashes.map((hash) => ({ method, params: [hash] })))
  const logs = new Map(
    hashes.map((hash, i) => {
      const receipt = readReceipt(resultOf(responses[i]), hash)
      if (receipt === undefined) throw garbage(method)
      return [hash, tokenLogs(receipt.logs, claim)] as const
    }),
  )
  return rest.filter(({ transaction, logIndex }) => {
    const all = logs.get(transaction)!
    const at = all.findIndex((log) => Number(log.logIndex) === logIndex)
    if (at === -1) throw garbage(method)
    return !isAuthorizationOf(all[at - 1], claim)
  })
}

const tokenLogs = (logs: readonly LogEntry[], { asset }: PaymentClaim): LogEntry[] =>
  logs
    .filter(({ address }) => address.toLowerCase() === asset.toLowerCase())
    .sort((a, b) => Number(a.logIndex) - Number(b.logIndex))

const isAuthorizationOf = (log: LogEntry | undefined, { payer }: PaymentClaim): boolean =>
  log?.topics[0]?.toLowerCase() === topics.authorizationUsed &&
  log.topics[1]?.slice(2).toLowerCase() === addressWord(payer)

const garbage = (method: string) => new RpcUnreachable(`the node returned an unexpected result for ${method}`)

/** A number in the form that nodes expect. */
export const hex = (value: number): string => `0x${value.toString(16)}`

/** @throws {RpcUnreachable} for anything else than a whole number that JavaScript can represent */
export function wholeNumber(value: unknown): number {
  const number = Number(quantity(value))
  if (Number.isSafeInteger(number)) return number
  throw new RpcUnreachable('expected a smaller number from the node')
}
