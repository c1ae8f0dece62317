import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import type { Rpc } from '../rpc/createSolanaRpc.ts'
import { rpcCodes } from '../rpc/rpcCodes.ts'
import type { SignatureStatus } from '../settle/confirm.ts'

/** Signatures that one question answers: the most that nodes give. */
const PAGE_SIZE = 1_000
/** Addresses whose lists are read at once. */
const LISTS_AT_ONCE = 50

/** One of `getSignaturesForAddress`. */
interface Signed extends SignatureStatus {
  readonly signature: string
  /** Seconds since 1970; null where the node does not know. */
  readonly blockTime: number | null
}

export interface SignaturesPage {
  /** Of transactions that succeeded; none twice. */
  readonly signatures: readonly string[]
  /** The oldest of them, in ms since 1970. */
  readonly downToMs: number
}

export interface SignaturesBack extends AsyncIterable<SignaturesPage> {
  /** Afterwards: from when on the lists are whole, in ms since 1970. */
  readonly fromMs: number
  /** Afterwards: what could not be read, in words. */
  readonly faults: readonly string[]
}

/**
 * Transactions that name one of these addresses, the newest of each first, down to a time.
 *
 * @throws {RpcRefused} {RpcUnreachable} when not one list can be had
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
        const answers = await rpc.many<Signed[]>(open.map(listCall))
        const next: typeof open = []
        const found: Signed[] = []
        for (const [n, answer] of answers.entries()) {
          const { address } = open[n]!
          if (!answer.ok) {
            if (!hasAny) throw answer.error
            faults.push(`the list of ${address} could not be read to its end: ${answer.error.message}`)
            continue
          }
          hasAny = true
          const list = answer.result
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
    // A list that ends may only mean that the node has forgotten the rest.
    if (endsEarly) fromMs = Math.max(sinceMs, (await historyMs(rpc)) ?? sinceMs)
    if (fromMs > sinceMs) faults.push('the node does not know what came before')
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

/** From when on the node knows what happened, in ms since 1970; undefined where it does not say. */
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
