import { TollgateError } from '../../../core/errors/error.ts'
import type { SignInFields } from '../../../core/ports/chains/wallets.ts'

/**
 * The text a wallet shows and signs: EIP-4361 on EVM, with its fields in the order of its ABNF, and on Solana the same
 * text under Solana's name, as wallets with the Sign In With Solana feature write it.
 *
 * Every field goes on a line of its own, so a line break inside one could forge another: it is refused.
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a field that the formats do not allow: a mistake of the caller's
 * @see https://eips.ethereum.org/EIPS/eip-4361 and https://github.com/phantom/sign-in-with-solana
 */
export function signInText(fields: SignInFields, evmChainId: number): string {
  const { chain, address, domain, uri, statement, nonce } = fields
  for (const [name, form] of Object.entries(forms)) {
    if (!form.test(fields[name as keyof typeof forms])) {
      throw new TollgateError(
        'VALIDATION_ERROR',
        `The sign-in text can not hold this ${name}; expected ${form}.`,
      )
    }
  }
  const lines = [
    `${domain} wants you to sign in with your ${chain === 'solana' ? 'Solana' : 'Ethereum'} account:`,
    address,
    '',
    statement,
    '',
    `URI: ${uri}`,
    'Version: 1',
    ...(chain === 'solana' ? [] : [`Chain ID: ${evmChainId}`]),
    `Nonce: ${nonce}`,
    `Issued At: ${new Date(fields.issuedAtMs).toISOString()}`,
    `Expiration Time: ${new Date(fields.expiresAtMs).toISOString()}`,
  ]
  return lines.join('\n')
}

const forms = {
  address: /^[0-9A-Za-z]+$/,
  /** RFC 3986 authority: host and port, nothing that could be read as a sentence. */
  domain: /^[0-9A-Za-z.\-_~[\]:]+$/,
  uri: /^[a-z][a-z0-9+.-]*:[\x21-\x7e]+$/i,
  statement: /^[\x20-\x7e]+$/,
  /** At least 8 letters or digits (EIP-4361). */
  nonce: /^[0-9A-Za-z]{8,}$/,
} as const
