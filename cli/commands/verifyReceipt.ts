import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import type { Command } from 'commander'
import type { SignedDocument } from '../../buyer/chains/signedDocument.ts'
import { explorerUrl, networkTitle } from '../../core/domain/network.ts'
import { isLoopback } from '../../core/http/caller.ts'
import { jsonOption, type Output, outputOf } from '../output/createOutput.ts'
import { exitCodes, UsageError } from '../output/exitCodes.ts'

interface Flags {
  readonly origin?: string
  readonly address?: string
  readonly json?: true
}

export function registerVerifyReceipt(program: Command): void {
  program
    .command('verify-receipt')
    .description('Check a signed receipt or offer (x402 extension offer-receipt), and print what it proves.')
    .argument('<file>', 'file with the receipt, or - for the standard input')
    .option('--origin <url>', "address of the seller's service, whose published keys are requested")
    .option('--address <address>', 'address of the key that must have signed, to check without a network')
    .addHelpText(
      'after',
      `
The file is a receipt, an offer, the download of a purchase, the JSON of tollgate pay, the body of a 402, or the value of the header
PAYMENT-RESPONSE. The command ends with 0 if every document in the file is signed by the expected key, and with 1 otherwise.`,
    )
    .option(...jsonOption)
    .action(async (file: string, flags: Flags) => {
      const output = outputOf(flags)
      try {
        const isValid = await verify(file, flags, output)
        if (!isValid) process.exitCode = exitCodes.failed
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

async function verify(file: string, flags: Flags, output: Output): Promise<boolean> {
  const { origin, address } = flags
  if ((origin === undefined) === (address === undefined))
    throw new UsageError('Expected --origin or --address, so that the key that must have signed is known.')
  // The chain libraries are large, so other commands and --help start without them.
  const { readDocuments } = await import('../../buyer/chains/signedDocument.ts')
  const documents = await readDocuments(await bytesOf(file))
  const expected = await expectedSigners(flags)
  const nowSeconds = Date.now() / 1_000
  const verdicts = documents.map((document) => ({
    problem: problemOf(document, expected, origin, nowSeconds),
    document,
  }))
  for (const [i, { document, problem }] of verdicts.entries()) {
    if (i > 0) output.say('')
    print(document, problem, output)
  }
  return verdicts.every(({ problem }) => problem === undefined)
}

async function bytesOf(file: string): Promise<Uint8Array> {
  if (file === '-') return buffer(process.stdin)
  return readFile(file).catch((cause: NodeJS.ErrnoException) => {
    throw new UsageError(`Expected a receipt in ${file}, but the file cannot be read (${cause.code}).`)
  })
}

async function expectedSigners({ origin, address }: Flags): Promise<ReadonlySet<string>> {
  const { publishedAddresses, readAddress } = await import('../../buyer/chains/publishedKeys.ts')
  if (origin !== undefined) return publishedAddresses(readOrigin(origin))
  const expected = readAddress(address!)
  if (expected !== undefined) return new Set([expected])
  throw new UsageError(`Expected --address to be 0x and 40 hex digits, got ${address}.`)
}

function readOrigin(text: string): URL {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError(`Expected --origin to be an address such as https://pay.example.com, got ${text}.`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw new UsageError('Expected --origin to be https, because keys over plain HTTP prove nothing.')
  return url
}

/** Why a document proves nothing, with the field. Undefined if it is valid. */
function problemOf(
  { payload, signer, kind }: SignedDocument,
  expected: ReadonlySet<string>,
  origin: string | undefined,
  nowSeconds: number,
): string | undefined {
  const named = new URL(payload.resourceUrl).origin
  if (origin !== undefined && named !== new URL(origin).origin)
    return `resourceUrl is at ${named}, but --origin is ${new URL(origin).origin}.`
  if (!expected.has(signer))
    return `signature is by ${signer}, but the expected key is ${[...expected].join(' or ')}. A field was changed, or another key has signed.`
  if (kind === 'offer' && payload.validUntil !== 0 && payload.validUntil < nowSeconds)
    return `validUntil has passed: the offer ended at ${timeOf(payload.validUntil)}.`
  if (kind === 'receipt' && payload.issuedAt > nowSeconds + 600)
    return `issuedAt is in the future: ${timeOf(payload.issuedAt)}.`
  return undefined
}

function print(document: SignedDocument, problem: string | undefined, output: Output): void {
  const { kind, payload, signer } = document
  const isValid = problem === undefined
  if (output.isJson)
    return output.result(
      { kind, isValid, problem: problem ?? null, signer, ...payload, proves: proofOf(document) },
      '',
    )
  const rows: readonly (readonly [string, string])[] = [
    [kind, isValid ? 'valid' : `NOT VALID: ${problem}`],
    ...(isValid ? ([['proves', proofOf(document)]] as const) : []),
    ['seller', new URL(payload.resourceUrl).host],
    ['sold', payload.resourceUrl],
    ...(document.kind === 'receipt' ? receiptRows(document.payload) : offerRows(document.payload)),
    ['signed by', signer],
  ]
  output.rows(rows, [
    { title: 'Field', value: ([name]) => name },
    { title: 'Value', value: ([, value]) => value, isWhole: true },
  ])
}

type Row = readonly [name: string, value: string]

function receiptRows({
  payer,
  issuedAt,
  network,
  transaction,
}: (SignedDocument & { kind: 'receipt' })['payload']): readonly Row[] {
  const explorer = transaction === '' ? undefined : explorerUrl(network, transaction)
  return [
    ['buyer', payer],
    ['time', timeOf(issuedAt)],
    ['network', networkTitle(network)],
    ['transaction', transaction === '' ? 'not named' : transaction],
    ...(explorer === undefined ? [] : [['see', explorer] as const]),
  ]
}

function offerRows({
  amount,
  asset,
  payTo,
  network,
  scheme,
  validUntil,
}: (SignedDocument & { kind: 'offer' })['payload']): readonly Row[] {
  return [
    ['amount', `${amount} atomic units of ${asset}`],
    ['to', payTo],
    ['network', `${networkTitle(network)} (${scheme})`],
    ['until', validUntil === 0 ? 'no end' : timeOf(validUntil)],
  ]
}

function proofOf(document: SignedDocument): string {
  const { host } = new URL(document.payload.resourceUrl)
  if (document.kind === 'offer') return `${host} offered these terms.`
  const { payer, transaction } = document.payload
  const paid = transaction === '' ? '' : ` It names the transaction that paid; the chain shows the amount.`
  return `${host} states that ${payer} paid and got what was sold.${paid}`
}

const timeOf = (seconds: number): string =>
  seconds < 8.64e12 ? new Date(seconds * 1_000).toISOString() : `${seconds} s since 1970`
