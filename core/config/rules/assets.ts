import { familyOf } from '../../domain/network.ts'
import { builtInTokenOf, isSameToken, knownTokenOf } from '../assets.ts'
import type { Finding } from '../check/explain.ts'
import type { Pointer } from '../read/pointer.ts'
import type { AssetConfig } from '../schema.ts'
import { mistake, type Rule } from './rule.ts'

/** Rules about tokens. Each token must belong to a configured network, and have what signing and paying need. */
export const assetRules: readonly Rule[] = [
  {
    reads: ['networks', 'assets'],
    *check({ config: { networks, assets }, shown }) {
      for (const [i, asset] of assets.entries()) {
        const at = `/assets/${i}`
        if (networks[asset.network] === undefined) {
          yield mistake(
            `${at}/network`,
            `network is ${shown(`${at}/network`)}, which is not in networks.`,
            'Add it to networks, or remove this token.',
          )
        }
        const first = assets.findIndex((other) => isSameToken(other, asset))
        if (first < i) yield mistake(`${at}/address`, `assets[${first}] and assets[${i}] are the same token.`)
        const network = shown(`${at}/network`)
        yield* checkAddress(asset, at, network)
        yield* checkFamily(asset, at, network)
        yield* checkCompleteness(asset, at, shown(`${at}/decimals`))
      }
    },
  },
]

function* checkAddress(asset: AssetConfig, at: Pointer, shownNetwork: string): Iterable<Finding> {
  const { network, address, usdPerUnit } = asset
  const isSolana = familyOf(network) === 'solana'
  const isAddress = isSolana ? /^[1-9A-HJ-NP-Za-km-z]{32,44}$/ : /^0x[0-9a-fA-F]{40}$/
  if (!isAddress.test(address)) {
    const expected = isSolana ? '32 to 44 base58 characters' : '0x and 40 hexadecimal digits, in quotes'
    yield mistake(`${at}/address`, `address is not one of network ${shownNetwork}: expected ${expected}.`)
  }
  if (usdPerUnit !== undefined && !/[1-9]/.test(usdPerUnit))
    yield mistake(`${at}/usdPerUnit`, 'usdPerUnit has to be more than 0.')
}

function* checkFamily(asset: AssetConfig, at: Pointer, shownNetwork: string): Iterable<Finding> {
  const { network, eip712, program, transferMethod, hasPermit } = asset
  const isSolana = familyOf(network) === 'solana'
  if (isSolana && eip712 !== undefined)
    yield mistake(`${at}/eip712`, `eip712 has no effect on network ${shownNetwork}.`)
  if (isSolana && transferMethod !== undefined)
    yield mistake(`${at}/transferMethod`, `transferMethod has no effect on network ${shownNetwork}.`)
  if (isSolana && hasPermit !== undefined)
    yield mistake(`${at}/hasPermit`, `hasPermit has no effect on network ${shownNetwork}.`)
  if (!isSolana && program !== undefined)
    yield mistake(`${at}/program`, `program has no effect on network ${shownNetwork}.`)
}

function* checkCompleteness(asset: AssetConfig, at: Pointer, shownDecimals: string): Iterable<Finding> {
  const known = knownTokenOf(asset)
  if (known !== undefined) {
    if (asset.decimals !== undefined && asset.decimals !== known.decimals) {
      yield mistake(
        `${at}/decimals`,
        `decimals of ${known.symbol} at this address is ${known.decimals}, not ${shownDecimals}.`,
      )
    }
    if (asset.usdPerUnit === undefined && builtInTokenOf(asset) === undefined)
      yield mistake(
        at,
        `usdPerUnit is missing. ${known.symbol} is not worth one USDC, so state its value in USDC.`,
      )
    return
  }
  // A buyer signs a permit of the token under the token's EIP-712 domain.
  const isSigned = asset.transferMethod !== 'permit2' || asset.hasPermit === true
  const needed =
    familyOf(asset.network) === 'eip155' && isSigned
      ? (['symbol', 'decimals', 'eip712'] as const)
      : (['symbol', 'decimals'] as const)
  for (const name of needed) {
    if (asset[name] === undefined)
      yield mistake(
        at,
        `${name} is missing. It is required, because address is not a token that Tollgate knows.`,
      )
  }
}
