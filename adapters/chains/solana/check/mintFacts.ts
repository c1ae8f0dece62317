import type { Asset } from '../../../../core/domain/asset.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import { tokenProgramAddress } from '../../../../core/solana/programs.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'

/** Size of a mint without extensions; a mint with extensions is padded to the size of a token account. */
const mintBytes = 82
const accountTypeAt = 165
const accountTypeMint = 1

/**
 * How long what was read is good, in ms. A transfer fee can be raised, but only with effect two epochs (days) later,
 * and the raise is visible at once; so an hour is safe, even while no node answers.
 */
const FRESH_MS = 600_000
const USABLE_MS = 3_600_000

/** Extension types of Token-2022 that a mint may have (`ExtensionType`). */
const extension = { transferFeeConfig: 1, nonTransferable: 9, transferHook: 14 } as const

/**
 * Extensions that never change how much arrives: close authority (3), confidential transfers (4, 16, 24), account state
 * (6), interest shown (10), permanent delegate (12), metadata and groups (18 to 23), amount shown (25), pausing (26).
 */
const harmless = new Set([3, 4, 6, 10, 12, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26])

interface MintAccount {
  readonly owner: string
  readonly data: readonly [string, string]
}

/** Whether each configured mint is what the configuration says, and hands over exactly the amount that is sent. */
export interface MintFacts {
  /**
   * What is wrong with the mint, in words; undefined when nothing is. Reads all mints in one call, then from memory.
   * @throws {RpcUnreachable} when no node answers and nothing usable is known.
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
      // A fault is asked again each time: the operator may have mended it.
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

/** Why a mint account must not be sold for; undefined when it may. */
export function mintFault(account: MintAccount | null, asset: Asset): string | undefined {
  if (account === null) return `The mint ${asset.address} of ${asset.symbol} does not exist on this cluster.`
  const program = tokenProgramAddress[asset.program ?? 'token']
  if (account.owner !== program) {
    return `The mint of ${asset.symbol} belongs to the program ${account.owner}, the configuration says ${program}.`
  }
  const data = Buffer.from(account.data[0], 'base64')
  if (data.length < mintBytes || (data.length > mintBytes && data[accountTypeAt] !== accountTypeMint)) {
    return `The account ${asset.address} of ${asset.symbol} is no mint.`
  }
  if (data[45] !== 1) return `The mint of ${asset.symbol} is not initialised.`
  const decimals = data[44]!
  if (decimals !== asset.decimals) {
    return `The mint of ${asset.symbol} has ${decimals} decimals, the configuration says ${asset.decimals}.`
  }
  return data.length > mintBytes ? extensionFault(data, asset.symbol) : undefined
}

/** Walks the extensions: two bytes of type, two of length, then the value. */
function extensionFault(data: Buffer, symbol: string): string | undefined {
  let at = accountTypeAt + 1
  while (at + 4 <= data.length) {
    const type = data.readUInt16LE(at)
    const value = data.subarray(at + 4, at + 4 + data.readUInt16LE(at + 2))
    // Zero ends the list; the rest is room.
    if (type === 0) return undefined
    if (type === extension.transferFeeConfig) {
      // Two fees, the current one and the next, each ending with its rate in hundredths of a percent.
      if (value.length < 108 || value.readUInt16LE(88) !== 0 || value.readUInt16LE(106) !== 0) {
        return `${symbol} takes a fee from transfers, so the seller would get less than the price.`
      }
    } else if (type === extension.nonTransferable) return `${symbol} can not be transferred.`
    else if (type === extension.transferHook) {
      if (value.length < 64 || value.subarray(32, 64).some((byte) => byte !== 0)) {
        return `${symbol} calls a program of its own on transfers, which a payment does not allow.`
      }
    } else if (!harmless.has(type))
      return `The mint of ${symbol} has the extension ${type}, which is not known here.`
    at += 4 + value.length
  }
  return undefined
}
