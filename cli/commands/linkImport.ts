import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'
import { exitCodes, UsageError } from '../output/exitCodes.ts'
import type { Column } from '../output/table.ts'
import { callGateway } from '../runtime/callGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'
import { type BundledDocument, bundleDocument } from './bundleDocument.ts'

interface ImportFlags extends GatewayFlags {
  readonly price: string[]
  readonly as: string
  readonly server?: string
  readonly source?: string
  readonly header: string[]
  readonly public?: true
  readonly dryRun?: true
  readonly json?: true
}

/** The result for one operation of the imported document. */
export interface ImportedRow {
  readonly operation: string
  readonly action: string
  readonly price: string | null
  readonly slug: string | null
  readonly changes: readonly string[]
  readonly reason: string | null
}

interface ImportResponse {
  readonly source: string
  readonly server: string
  readonly otherServers: readonly string[]
  readonly operations: readonly ImportedRow[]
  readonly nextOffset: number | null
}

export function registerLinkImport(link: Command): void {
  takesGateway(
    link
      .command('import')
      .description('Import an OpenAPI document: one link per operation, or one for the whole API.')
      .argument('<file>', 'the OpenAPI 3.0 or 3.1 document, in YAML or JSON; - reads standard input'),
  )
    .option(
      '--price <price>',
      "price per call in USDC, or a rule: 'POST /render=0.05'; repeatable",
      collect,
      [],
    )
    .option('--as <what>', 'each: one link per operation. one: one link for the whole API', 'each')
    .option('--server <url>', "base address of the API (default: the document's first server)")
    .option(
      '--source <name>',
      "a name for the document, by which the next import finds its links (default: made from the document's title)",
    )
    .option(
      '--header <header...>',
      "header for every call to the API, such as 'X-Key: …'; the gateway stores headers encrypted; repeatable",
      collect,
      [],
    )
    .option('--public', 'list the links in the marketplace')
    .option('--dry-run', 'show what the import would do, but change nothing')
    .option('--json', 'print one JSON object per line, even on a terminal')
    .addHelpText(
      'after',
      `
A rule is METHOD /path, /path or an operationId (* at the end matches every ending) and a price, or none for what is
not for sale. A rule overrides x-price in the document, which overrides the price without a rule. Importing the document
again updates what has changed. Files that the document references are read from its folder and below; nothing is
fetched. The store's API key is read from TOLLGATE_API_KEY.

Examples:
  tollgate link import openapi.yaml --price 0.01 --dry-run
  tollgate link import openapi.yaml --price 0.01 --price 'POST /render=0.05' --price 'DELETE *=none'`,
    )
    .action(async (file: string, flags: ImportFlags) => {
      const output = createOutput({
        stdout: process.stdout,
        stderr: process.stderr,
        json: flags.json,
        env: process.env,
      })
      try {
        const gateway = gatewayUrl(flags)
        const { text, unread } = await documentIn(file)
        for (const why of unread) output.warn(why)
        const body = bodyOf(text, flags)
        const progress = output.progress('importing')
        const responses: ImportResponse[] = []
        try {
          for (let offset: number | null = 0; offset !== null; offset = responses.at(-1)!.nextOffset)
            responses.push(
              await callGateway<ImportResponse>(
                gateway,
                '/api/v1/links/import',
                { ...body, offset },
                process.env['TOLLGATE_API_KEY'],
              ),
            )
        } finally {
          progress.done()
        }
        const rows = responses.flatMap(({ operations }) => operations)
        output.rows(rows, columns(flags.dryRun === true))
        const { source, server, otherServers } = responses[0]!
        output.say(`\n${summaryOf(rows, flags.dryRun === true)} Document: "${source}". API: ${server}.`)
        if (otherServers.length > 0)
          output.say(
            `The document also names ${otherServers.join(', ')}. Choose another server with --server.`,
          )
        if (rows.some(({ action }) => action === 'failed')) process.exitCode = exitCodes.failed
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

const columns = (isDryRun: boolean): Column<ImportedRow>[] => [
  { title: 'Operation', value: ({ operation }) => operation, isWhole: true },
  { title: isDryRun ? 'Would' : 'Done', value: ({ action }) => words[action] ?? action },
  { title: 'Price', value: ({ price }) => price, align: 'right' },
  { title: 'Link', value: ({ slug }) => slug, isWhole: true },
  {
    title: 'Note',
    value: ({ changes, reason }) => [changes.join(', '), reason].filter(Boolean).join('. '),
    isWhole: true,
  },
]

const collect = (one: string, before: string[]): string[] => [...before, one]

const words: Readonly<Record<string, string>> = { left_out: 'skip', failed: 'fail' }

function summaryOf(rows: readonly ImportedRow[], isDryRun: boolean): string {
  const count = (action: string) => rows.filter((row) => row.action === action).length
  const parts = [
    [count('create'), isDryRun ? 'to be created' : 'created'],
    [count('change'), isDryRun ? 'to be changed' : 'changed'],
    [count('keep'), 'unchanged'],
    [count('left_out'), 'skipped'],
    [count('gone'), 'no longer in the document'],
    [count('failed'), 'failed'],
  ] as const
  return `${parts.flatMap(([many, what]) => (many > 0 ? [`${many} ${what}`] : [])).join(', ')}.`
}

async function documentIn(file: string): Promise<BundledDocument> {
  if (file === '-') return { text: await text(process.stdin), unread: [] }
  return bundleDocument(file, await textOf(file))
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code
    const why =
      code === 'ENOENT'
        ? 'the file does not exist'
        : code === 'EISDIR'
          ? 'the path is a folder'
          : `the file cannot be read (${code})`
    throw new UsageError(`Expected an OpenAPI document in ${file}, but ${why}.`, { cause })
  }
}

function bodyOf(document: string, flags: ImportFlags): object {
  const { as, server, source, header, price } = flags
  const plain = price.filter((one) => !one.includes('='))
  if (plain.length > 1)
    throw new UsageError(
      `Expected one price without a rule, got ${plain.join(', ')}. A rule is 'POST /render=0.05'.`,
    )
  const prices = price
    .filter((one) => one.includes('='))
    .map((rule): [string, string] => {
      const at = rule.lastIndexOf('=')
      return [rule.slice(0, at).trim(), rule.slice(at + 1).trim()]
    })
  return {
    document,
    as,
    ...(plain.length > 0 && { price: plain[0] }),
    ...(prices.length > 0 && { prices: Object.fromEntries(prices) }),
    ...(server !== undefined && { server }),
    ...(source !== undefined && { source }),
    ...(header.length > 0 && { upstreamHeaders: headersOf(header) }),
    ...(flags.public && { isPublic: true }),
    ...(flags.dryRun && { dryRun: true }),
  }
}

/** Parses upstream headers from flags such as `--header 'X-Key: value'`. @throws {UsageError} */
export function headersOf(flags: readonly string[]): Record<string, string> {
  const entries = flags.map((one): [string, string] => {
    const at = one.indexOf(':')
    // The value may be a secret, so the message does not repeat it.
    if (at < 1) throw new UsageError("Expected a header such as 'X-Key: value'.")
    return [one.slice(0, at).trim(), one.slice(at + 1).trim()]
  })
  return Object.fromEntries(entries)
}
