import { homedir } from 'node:os'
import { join } from 'node:path'
import { payForUrl } from '../../buyer/payForUrl.ts'
import type { CapQuestion, PayOptions } from '../../buyer/payOptions.ts'
import type { PayReport } from '../../buyer/payReport.ts'
import { resumePayment } from '../../buyer/resumePayment.ts'
import { UsageError } from '../../buyer/usageError.ts'
import { loadVaultWallets } from '../../buyer/vault/loadVaultWallets.ts'
import { visibleJson, visibleText } from '../../core/text/visibleText.ts'
import { askOnTerminal } from './askOnTerminal.ts'
import { exitCodeOf, exitCodes } from './exitCodes.ts'
import { loadWallets } from './loadWallets.ts'
import { checkPayment, openVaultClient } from './openVault.ts'
import { type OutputFile, openOutput } from './outputFile.ts'
import { createPaymentFiles } from './paymentFiles.ts'
import { bodyAsText, reportAsJson, reportAsText } from './printReport.ts'
import {
  guessContentType,
  readByteLimit,
  readHeaders,
  readMethod,
  readNetwork,
  readRequestBody,
  readRpcUrl,
  readSeconds,
  readUsd,
} from './readFlags.ts'

/** The options of the command line, as commander hands them over. */
export interface PayFlags {
  readonly network?: string
  readonly max?: string
  readonly yes?: boolean
  readonly json?: boolean
  readonly method?: string
  readonly body?: string
  readonly header?: readonly string[]
  readonly keyFile?: string
  readonly vault?: string
  readonly vaultTokenFile?: string
  readonly rpc?: string
  readonly output?: string
  readonly timeout?: string
  readonly maxBody?: string
  readonly insecureHttp?: boolean
  readonly resume?: string
  readonly again?: boolean
}

/** The process, or what stands for it in a test. */
export interface PayIo {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean }
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean }
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted by Ctrl-C. */
  readonly signal?: AbortSignal
  /** For tests, which need not wait for what does not come. */
  readonly pace?: Pick<PayOptions, 'retryDelaysMs' | 'chainWaitMs'>
}

/** Runs `tollgate pay` and returns the exit code. Prints; throws only what is a fault of this program. */
export async function runPay(target: string | undefined, flags: PayFlags, io: PayIo): Promise<number> {
  const isJson = flags.json === true || io.stdout.isTTY !== true
  let output: OutputFile | undefined
  let isTried = false
  let exitCode: number | undefined
  const deliver = async (report: PayReport): Promise<void> => {
    const kept = await keepBody(report, output, flags.output)
    output = undefined
    isTried = true
    await print(kept, isJson, io)
    exitCode = kept.exitCode
  }
  try {
    const start = await prepare(target, flags, io, deliver)
    output = flags.output === undefined ? undefined : await openOutput(flags.output)
    const report = await start()
    if (!isTried) await deliver(report).catch(() => undefined)
    // Nobody reads stdout, or it is full: what became of the money is said all the same.
    if (exitCode === undefined) io.stderr.write(`${reportAsText(report)}\n`)
    return exitCode ?? (exitCodeOf[report.outcome] || exitCodes.internal)
  } catch (error) {
    await output?.drop()
    if (!(error instanceof UsageError)) throw error
    if (isJson)
      io.stdout.write(
        `${visibleJson({ outcome: 'usage', exitCode: exitCodes.usage, message: error.message })}\n`,
      )
    io.stderr.write(`${visibleText(error.message)}\n`)
    return exitCodes.usage
  }
}

/** Reads every option before anything is asked. @throws {UsageError} */
async function prepare(
  target: string | undefined,
  flags: PayFlags,
  io: PayIo,
  deliver: (report: PayReport) => Promise<void>,
): Promise<() => Promise<PayReport>> {
  const common = {
    payments: createPaymentFiles(join(io.env['TOLLGATE_HOME'] || join(homedir(), '.tollgate'), 'payments')),
    deliver,
    ...io.pace,
    ...(flags.rpc !== undefined && { rpcUrl: readRpcUrl(flags.rpc) }),
    ...(flags.timeout !== undefined && { timeoutMs: readSeconds(flags.timeout) }),
    ...(flags.maxBody !== undefined && { maxBodyBytes: readByteLimit(flags.maxBody) }),
    ...(io.signal !== undefined && { signal: io.signal }),
    allowInsecureHttp: flags.insecureHttp === true,
    onStep: (text: string) => void io.stderr.write(`${visibleText(text)}\n`),
  }
  if (flags.resume !== undefined) {
    if (target !== undefined) throw new UsageError('Expected an address or --resume, got both.')
    if (flags.again === true) throw new UsageError('Expected --again or --resume, got both.')
    const file = flags.resume
    return () => resumePayment(file, common)
  }
  if (target === undefined) throw new UsageError('Expected an address to pay, or --resume FILE.')
  const body = flags.body === undefined ? undefined : await readRequestBody(flags.body)
  const options: Omit<PayOptions, 'wallets'> = {
    ...common,
    url: target,
    method: readMethod(flags.method ?? (body === undefined ? 'GET' : 'POST')),
    headers: headersOf(flags, body),
    ...(body !== undefined && { body }),
    again: flags.again === true,
    ...(flags.network !== undefined && { network: readNetwork(flags.network) }),
    ...(flags.max !== undefined && { maxUsd: readUsd(flags.max) }),
    confirm: (question, signal) => confirm(question, flags, io, signal),
  }
  const wallets = await walletSource(flags, io, options)
  return () => payForUrl({ ...options, wallets })
}

/** Keys are read now; a vault is asked when the run begins. @throws {UsageError} */
async function walletSource(
  flags: PayFlags,
  io: PayIo,
  { network, rpcUrl, signal, onStep }: Omit<PayOptions, 'wallets'>,
): Promise<PayOptions['wallets']> {
  const { vault, vaultTokenFile: tokenFile, keyFile } = flags
  const rpc = rpcUrl === undefined ? {} : { rpcUrl }
  if (vault === undefined) {
    if (tokenFile !== undefined) throw new UsageError('--vault-token-file is for --vault.')
    return await loadWallets({ env: io.env, ...(keyFile !== undefined && { keyFile }), ...rpc })
  }
  if (keyFile !== undefined) throw new UsageError('Expected --vault or --key-file, got both.')
  const ask = await openVaultClient({ vault, env: io.env, ...(tokenFile !== undefined && { tokenFile }) })
  return () =>
    loadVaultWallets(ask, {
      ...rpc,
      ...(network !== undefined && { network }),
      check: checkPayment,
      signal: signal ?? new AbortController().signal,
      onStep: onStep!,
    })
}

function headersOf(flags: PayFlags, body: Uint8Array | undefined): string[] {
  const headers = readHeaders(flags.header ?? [])
  const names = headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
  if (!names.includes('accept')) headers.push('Accept', '*/*')
  if (!names.includes('user-agent')) headers.push('User-Agent', 'tollgate-pay')
  if (body !== undefined && !names.includes('content-type'))
    headers.push('Content-Type', guessContentType(body))
  return headers
}

/** `--yes` agrees up to ten times the cap and says so; beyond that, and without it, only a person at a terminal can. */
async function confirm(
  question: CapQuestion,
  flags: PayFlags,
  io: PayIo,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (flags.yes === true && question.isWithinTenfold) {
    const { usd, capUsd } = question
    io.stderr.write(`The price of ${usd} USD is above the cap of ${capUsd} USD; paying because of --yes.\n`)
    return true
  }
  if (io.stdin.isTTY !== true || io.stderr.isTTY !== true) return false
  return await askOnTerminal(question, io, signal)
}

/** A report as it is printed. */
interface Printed {
  readonly report: PayReport
  readonly exitCode: number
  readonly savedTo: string | null
}

/** Only an answer that was bought, or was free, goes to the file. When that fails, the report still carries it. */
async function keepBody(report: PayReport, output: OutputFile | undefined, path = ''): Promise<Printed> {
  const exitCode = exitCodeOf[report.outcome]
  if (output === undefined) return { report, exitCode, savedTo: null }
  const { answer, warnings } = report
  if (answer === null || answer.status < 200 || answer.status >= 300) {
    await output.drop()
    return { report, exitCode, savedTo: null }
  }
  try {
    await output.keep(answer.body)
    return { report, exitCode, savedTo: path }
  } catch (error) {
    const warning = `The output file could not be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`
    return {
      report: { ...report, warnings: [...warnings, warning] },
      exitCode: exitCode || exitCodes.internal,
      savedTo: null,
    }
  }
}

async function print(
  { report, exitCode, savedTo }: Printed,
  isJson: boolean,
  { stdout, stderr }: PayIo,
): Promise<void> {
  if (isJson) return await write(stdout, `${reportAsJson(report, exitCode, savedTo)}\n`)
  const { answer } = report
  if (answer !== null && savedTo === null)
    await write(stdout, `${bodyAsText(answer.body, answer.contentType)}\n`)
  stderr.write(`${reportAsText(report)}\n`)
  if (savedTo !== null) stderr.write(visibleText(`  saved    ${savedTo}`).concat('\n'))
}

/** Until the system has taken it. @throws the system's error: nobody reads it, or the disk is full */
async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    // The stream tells of a failure twice, and one that nobody hears of ends the process.
    stream.on('error', reject)
    stream.write(text, (error) => (error ? reject(error) : resolve()))
  })
}
