import { hash } from 'node:crypto'
import { authorizationDigest, domainSeparator } from '../../adapters/chains/evm/check/authorization.ts'
import { addressOfKey, secp256k1 } from '../../adapters/chains/evm/settle/transaction.ts'
import { createSealer } from '../../adapters/secrets/sealer.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { evmPaymentKey, evmPaymentKeyPrefix } from '../../core/domain/payment.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { testAsset, testNetwork, testPayTo } from '../helpers/settler.ts'
import type { Authorisation } from './chain.ts'

/** The sealer of every process. */
export const sealer = createSealer(Buffer.alloc(32, 7))

/** The key that pays for gas, shared by all gateways of a seed. */
export const settlingKey = `0x${'5e'.repeat(32)}`
export const settlingAccount = addressOfKey(Buffer.from(settlingKey.slice(2), 'hex'))

const asset = builtInAssets.find(({ network, address }) => network === testNetwork && address === testAsset)!
const chainId = Number(testNetwork.slice('eip155:'.length))
const separator = domainSeparator({ ...asset.eip712!, chainId, verifyingContract: testAsset.toLowerCase() })
const keyPrefix = evmPaymentKeyPrefix(testNetwork, testAsset)

interface Wallet {
  readonly key: Buffer
  readonly address: string
}

const wallets = new Map<string, Wallet>()

/** The wallet of this name, the same in every seed: to make a key's address costs more than to remember it. */
export function walletOf(name: string): Wallet {
  let wallet = wallets.get(name)
  if (wallet === undefined) {
    const key = hash('sha256', `a buyer named ${name}`, 'buffer')
    wallets.set(name, (wallet = { key, address: addressOfKey(key) }))
  }
  return wallet
}

/** Signs an EIP-3009 authorisation, by the very arithmetic that checks it. @returns it with its header of x402 version 2 */
export function signAuthorisation(
  { key, address }: Wallet,
  {
    nonce: name,
    value,
    validBeforeMs,
    extensions,
  }: { nonce: string; value: number; validBeforeMs: number; extensions?: object | undefined },
): { readonly authorisation: Authorisation; readonly header: string } {
  const nonce = `0x${hash('sha256', name, 'hex')}`
  const validBefore = String(Math.floor(validBeforeMs / 1_000))
  const terms = { from: address, to: testPayTo.toLowerCase(), value: String(value), validAfter: '0' }
  const authorization = { ...terms, validBefore, nonce }
  const digest = authorizationDigest(separator, { ...authorization, signature: '0x' })
  const { signature, recovery } = secp256k1.sign(digest, key)
  const payload = {
    signature: `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`,
    authorization,
  }
  const header = encodeHeader({
    ...{ x402Version: 2, payload },
    accepted: { scheme: 'exact', network: testNetwork, asset: testAsset },
    extensions,
  })
  const authorisation = {
    ...{ key: evmPaymentKey(keyPrefix, address, nonce), payer: address, value, nonce },
    validBeforeMs: Number(validBefore) * 1_000,
  }
  return { authorisation, header }
}
