import { RpcRefused } from '../../../../core/rpc/post.ts'
import { type Rpc, rpcCodes } from '../rpc/nodes.ts'
import type { SignatureStatus } from '../settle/confirmations.ts'

/** Signatures per request. Nodes return no more. */
const PAGE_SIZE = 1_000
/** Addresses whose lists are read concurrently. */
const LISTS_AT_ONCE = 50

/** An entry of `getSignaturesForAddress`. */
interface Signed extends SignatureStatus {
  readonly signature: string
  /** Seconds since 1970. Null if the node does not have the time. */
  readonly blockTime: number | null
}

export interface SignaturesPage {
  /** Signatures of transactions that succeeded, without duplicates. */
  readonly signatures: readonly string[]
  /** The time of the oldest transaction, in ms since 1970. */
  readonly downToMs: number
}

export interface SignaturesBack extends AsyncIterable<SignaturesPage> {
  /** Set at the end of the search. The lists are complete from this time on, in ms since 1970. */
  readonly fromMs: number
  /** Set at the end of the search. Sentences about the lists that could not be read. */
  readonly faults: readonly string[]
}

/**
 * Transactions that name one of these addresses, newest first per address, down to a time.
 *
 * @throws {RpcRefused} {RpcUnreachable} when none of the lists can be read
 */
export function signaturesBack(rpc: Rpc, addresses: readonly string[], sinceMs: number): SignaturesBack {
  let fromMs = sinceMs
  const faults: string[] = []
  const isOld = ({ blockTime }: Signed) => blockTime !== null && 1_000 * blockTime < sinceMs

  async function* pages(): AsyncGenerator<SignaturesPage> {
    const known = new Set<string>()
    let [hasAny, endsEarly] = [false, false]
    for (let i = 0; i < addresses.length; i += LISTS_AT_ONCE) {
      let open = addresses
        .slice(i, i + LISTS_AT_ONCE)
        .map((address) => ({ address, before: undefined as string | undefined }))
      while (open.length > 0) {
        const responses = await rpc.many<Signed[]>(open.map(listCall))
        const next: typeof open = []
        const found: Signed[] = []
        for (const [n, response] of responses.entries()) {
          const { address } = open[n]!
          if (!response.ok) {
            if (!hasAny) throw response.error
            faults.push(`the list of ${address} could not be read to its end: ${response.error.message}`)
            continue
          }
          hasAny = true
          const list = response.result
          const young = list.filter((one) => !isOld(one))
          found.push(...young)
          if (young.length < list.length) continue
          if (list.length < PAGE_SIZE) endsEarly = true
          else next.push({ address, before: list.at(-1)!.signature })
        }
        const fresh = found.filter(({ signature, err }) => err === null && !known.has(signature))
        for (const { signature } of fresh) known.add(signature)
        const times = found.flatMap(({ blockTime }) => blockTime ?? [])
        const downToMs = times.length === 0 ? sinceMs : 1_000 * Math.min(...times)
        yield { signatures: [...new Set(fresh.map(({ signature }) => signature))], downToMs }
        open = next
      }
    }
    // If a list ends early, the node may only have deleted older entries.
    if (endsEarly) fromMs = Math.max(sinceMs, (await historyMs(rpc)) ?? sinceMs)
    if (fromMs > sinceMs) faults.push('the node has no older history')
  }

  return {
    get fromMs() {
      return fromMs
    },
    faults,
    [Symbol.asyncIterator]: pages,
  }
}

const listCall = ({
  address,
  before,
}: {
  readonly address: string
  readonly before: string | undefined
}) => ({
  method: 'getSignaturesForAddress',
  params: [address, { limit: PAGE_SIZE, commitment: 'confirmed', ...(before !== undefined && { before }) }],
})

/** The start of the node's history, in ms since 1970. Undefined if the node does not report it. */
async function historyMs(rpc: Rpc): Promise<number | undefined> {
  try {
    const slot = await rpc.call<number>('getFirstAvailableBlock')
    const seconds = await rpc.call<number | null>('getBlockTime', slot)
    return seconds === null ? undefined : 1_000 * seconds
  } catch (error) {
    if (error instanceof RpcRefused && error.code === rpcCodes.methodNotFound) return undefined
    throw error
  }
}
