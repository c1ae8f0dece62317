/** The fields of a text that a wallet signs to sign in, except its address and chain. The names are those of CAIP-122. */
export interface SignInText {
  readonly domain: string
  readonly uri: string
  readonly version: string
  readonly nonce: string
  /** ISO 8601, like the other times. */
  readonly issuedAt: string
  readonly statement?: string | undefined
  readonly expirationTime?: string | undefined
  readonly notBefore?: string | undefined
  readonly requestId?: string | undefined
  readonly resources?: readonly string[] | undefined
}

/**
 * The text that a wallet shows and signs. On EVM it follows EIP-4361, with the fields in the order of its ABNF. On Solana it is the
 * same text with the name Solana, as wallets with the Sign In With Solana feature write it. Each field is a line, so the caller must
 * refuse line breaks in fields.
 *
 * @param account the chain's name in the text
 * @param chainId the CAIP-2 reference of the network. Undefined if the text names none
 * @see https://eips.ethereum.org/EIPS/eip-4361 and https://github.com/phantom/sign-in-with-solana
 */
export function signInText(
  fields: SignInText,
  account: 'Ethereum' | 'Solana',
  address: string,
  chainId: string | undefined,
): string {
  const { statement, resources } = fields
  // Without a statement, EIP-4361 keeps both empty lines.
  const blank = account === 'Ethereum' ? ['', ''] : ['']
  const rows: (readonly [string, string | undefined])[] = [
    ['URI', fields.uri],
    ['Version', fields.version],
    ['Chain ID', chainId],
    ['Nonce', fields.nonce],
    ['Issued At', fields.issuedAt],
    ['Expiration Time', fields.expirationTime],
    ['Not Before', fields.notBefore],
    ['Request ID', fields.requestId],
  ]
  return [
    `${fields.domain} wants you to sign in with your ${account} account:`,
    address,
    ...(statement === undefined ? blank : ['', statement, '']),
    ...rows.flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`])),
    ...(resources === undefined || resources.length === 0
      ? []
      : ['Resources:', ...resources.map((one) => `- ${one}`)]),
  ].join('\n')
}
