import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { base58 } from '@scure/base'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createWalletProofs } from '../../../adapters/chains/wallets/walletProofs.ts'
import type { WalletProofs } from '../../../core/ports/chains/wallets.ts'

/** A wallet that really signs. */
export interface Wallet {
  readonly chain: 'base' | 'solana'
  readonly address: string
  sign(message: string): Promise<string>
}

export function evmWallet(): Wallet {
  const account = privateKeyToAccount(generatePrivateKey())
  return { chain: 'base', address: account.address, sign: (message) => account.signMessage({ message }) }
}

export function solanaWallet(encoding: 'base64' | 'base58' = 'base64'): Wallet {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url')
  return {
    chain: 'solana',
    address: base58.encode(raw),
    async sign(message) {
      const signature = sign(
        null,
        Buffer.from(message),
        createPrivateKey(privateKey.export({ format: 'pem', type: 'pkcs8' })),
      )
      return encoding === 'base58' ? base58.encode(signature) : signature.toString('base64')
    },
  }
}

/** The real proofs, without a node; `isChainDown` makes them fail as a contract wallet's check would. */
export function walletProofsOf(): WalletProofs & { isChainDown: boolean } {
  const real = createWalletProofs({ evmChainId: 84532 })
  return {
    ...real,
    isChainDown: false,
    async verifyMessage(...proof) {
      if (this.isChainDown) throw new Error('the chain does not answer')
      return real.verifyMessage(...proof)
    },
  }
}
