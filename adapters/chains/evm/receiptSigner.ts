import { checksumAddress } from '../../../core/evm/hex.ts'
import type { ReceiptSigner } from '../../../core/ports/receiptSigner.ts'
import type { Sealer } from '../../../core/ports/sealer.ts'
import { addressOfKey, secp256k1 } from './settle/transaction.ts'

/** The signer of offers and receipts, whose key is derived from the server's secret. */
export function createReceiptSigner(sealer: Pick<Sealer, 'mac'>): ReceiptSigner {
  const key = sealer.mac('receipt key', '')
  return {
    address: checksumAddress(addressOfKey(key)),
    publicKey: secp256k1.publicKey(key),
    sign(digest) {
      const { signature, recovery } = secp256k1.sign(digest, key)
      return `0x${Buffer.from(signature).toString('hex')}${recovery === 0 ? '1b' : '1c'}`
    },
  }
}
