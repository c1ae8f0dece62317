import type { Asset } from '../../../../core/domain/asset.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import type { Rpc, WithContext } from '../rpc/nodes.ts'

/**
 * Size of a mint without extensions, in bytes. A mint with extensions has zeros after this size, up to the size of a token account.
 */
const mintBytes = 82
const accountTypeAt = 165
const accountTypeMint = 1

/**
 * How long a mint's data is used without another read, in ms, and how long it is used while no node responds. An hour is safe,
 * because a raised transfer fee is visible at once but takes effect two epochs (days) later.
 */
const FRESH_MS = 600_000
const USABLE_MS = 3_600_000

/** Extension types of Token-2022 that the check reads (`ExtensionType`). */
const extension = { transferFeeConfig: 1, nonTransferable: 9, transferHook: 14 } as const

/**
 * Extensions that never change the amount that arrives. They are close authority (3), confidential transfers (4, 16, 24), account
 * state (6), interest shown (10), permanent delegate (12), metadata and groups (18 to 23), amount shown (25) and pausing (26).
 */
const harmless = new Set([3, 4, 6, 10, 12, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26])

interface MintAccount {
  readonly owner: string
  readonly data: readonly [string, string]
}

/** Checks that each configured mint matches the configuration and transfers exactly the amount that is sent. */
export interface MintFacts {
  /**
   * A sentence about the mint's fault, or undefined if it has none. One call reads all mints, and the result is cached.
   *
   * @throws {RpcUnreachable} when no node responds and nothing usable is cached
   */
  faultOf(asset: Asset): Promise<string | undefined>
}

export function createMintFacts(rpc: Pick<Rpc, 'call'>, assets: readonly Asset[], clock: Clock): MintFacts {
  let known: { readonly faults: ReadonlyMap<string, string | undefined>; readonly atMs: number } | undefined
  let reading: Promise<void> | undefined

  const read = async () => {
    const addresses = assets.map(({ address }) => address)
    const { value } = await rpc.call<WithContext<(MintAccount | null)[]>>('getMultipleAccounts', addresses, {
      encoding: 'base64',
      commitment: 'confirmed',
    })
    const faults = new Map(assets.map((asset, i) => [asset.address, mintFault(value[i] ?? null, asset)]))
    known = { faults, atMs: clock.now() }
  }
  const ageMs = () => (known === undefined ? Number.POSITIVE_INFINITY : Math.abs(clock.now() - known.atMs))

  return {
    async faultOf(asset) {
      // A mint with a fault is read again each time, because the operator may have fixed it.
      const isFresh = ageMs() < FRESH_MS && known?.faults.get(asset.address) === undefined
      if (!isFresh) {
        reading ??= read().finally(() => {
          reading = undefined
        })
        try {
          await reading
        } catch (error) {
          if (ageMs() >= USABLE_MS) throw error
        }
      }
      return known?.faults.get(asset.address)
    },
  }
}

/** Why a mint cannot be accepted, or undefined if it can. */
export function mintFault(account: MintAccount | null, asset: Asset): string | undefined {
  if (account === null) return `The mint ${asset.address} of ${asset.symbol} does not exist on this cluster.`
  const program = tokenProgramAddress[asset.program ?? 'token']
  if (account.owner !== program) {
    return `Expected the mint of ${asset.symbol} to belong to the program ${program}, but it belongs to ${account.owner}. Correct the token in the configuration.`
  }
  const data = Buffer.from(account.data[0], 'base64')
  if (data.length < mintBytes || (data.length > mintBytes && data[accountTypeAt] !== accountTypeMint)) {
    return `The account ${asset.address} of ${asset.symbol} is not a mint.`
  }
  if (data[45] !== 1) return `The mint of ${asset.symbol} is not initialized.`
  const decimals = data[44]!
  if (decimals !== asset.decimals) {
    return `Expected the mint of ${asset.symbol} to have ${asset.decimals} decimals, but it has ${decimals}. Correct the token in the configuration.`
  }
  return data.length > mintBytes ? extensionFault(data, asset.symbol) : undefined
}

/** Reads the extensions. Each has two bytes of type, two of length, and the value. */
function extensionFault(data: Buffer, symbol: string): string | undefined {
  let at = accountTypeAt + 1
  while (at + 4 <= data.length) {
    const type = data.readUInt16LE(at)
    const value = data.subarray(at + 4, at + 4 + data.readUInt16LE(at + 2))
    // Type zero ends the list. The remaining bytes are padding.
    if (type === 0) return undefined
    if (type === extension.transferFeeConfig) {
      // The value has the current and the next fee. Each ends with its rate in hundredths of a percent.
      if (value.length < 108 || value.readUInt16LE(88) !== 0 || value.readUInt16LE(106) !== 0) {
        return `${symbol} takes a fee from transfers, so the seller would get less than the price.`
      }
    } else if (type === extension.nonTransferable) return `${symbol} cannot be transferred.`
    else if (type === extension.transferHook) {
      if (value.length < 64 || value.subarray(32, 64).some((byte) => byte !== 0)) {
        return `${symbol} calls a program of its own on transfers, which a payment does not allow.`
      }
    } else if (!harmless.has(type))
      return `The mint of ${symbol} has the extension ${type}, which this version does not support.`
    at += 4 + value.length
  }
  return undefined
}
