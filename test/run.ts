// `npm run unit`, `npm run test:slow`: runs test files, each in a process of its own: N at once (`--jobs N`, default: one for each
// core and one more), and another one while the cores are idle, because many files wait for a block, a restart or a timeout.
// `tap FILE` runs the same files, but loads a hook into every process that records what was imported and looks for source maps:
// half a second of CPU for each file and each gateway that a test starts.
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

/** What a test file made of itself. `problem` says in words why it counts as failed where its assertions do not. */
interface Outcome {
  readonly file: string
  readonly output: string
  readonly total: number
  readonly pass: number
  readonly skip: number
  readonly fail: number
  readonly durationMs: number
  readonly problem: string | undefined
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { timeout: { type: 'string' }, jobs: { type: 'string' } },
})
const root = resolve(import.meta.dirname, '..')
const settings = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).tap as {
  readonly include: string[]
  readonly exclude: string[]
  readonly timeout: number
}
const timeoutS = Number(values.timeout ?? settings.timeout)
/** Files that run at once, however busy the machine is. */
const jobs = Number(values.jobs ?? availableParallelism() + 1)
/** Files that run at once at most: each may start a browser, two chains and some gateways, so memory is the limit. */
const maxJobs = Math.max(jobs, 3 * availableParallelism())
/** Another file begins when this share of all cores was idle for `IDLE_SAMPLE_MS`: of two cores, half of one. */
const IDLE_SHARE = 0.25
/** Longer than a file takes to load its modules, so that the file that began last is counted. */
const IDLE_SAMPLE_MS = 2_000
const results = join(root, '.tap/test-results')

const startedMs = performance.now()
const files = longestFirst(wantedFiles())
const outcomes: Outcome[] = []
const running = new Set<ChildProcess>()
// A test that computes forever would keep a core after the run was given up.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    for (const child of running) child.kill('SIGKILL')
    process.kill(process.pid, signal)
  })
}
const firstCores = readCores()
let sampledCores = firstCores
await runAll()
report()

async function runAll(): Promise<void> {
  const underWay = new Set<Promise<void>>()
  for (const file of files) {
    while (underWay.size >= jobs) {
      if (underWay.size < maxJobs && areCoresIdle()) break
      await Promise.race([...underWay, sleep(IDLE_SAMPLE_MS)])
    }
    const one: Promise<void> = run(file).then((outcome) => {
      underWay.delete(one)
      outcomes.push(outcome)
      show(outcome)
    })
    underWay.add(one)
  }
  await Promise.all(underWay)
}

/** Milliseconds of all cores since the machine's start. */
function readCores() {
  const times = cpus().map((core) => core.times)
  const idleMs = times.reduce((sum, { idle }) => sum + idle, 0)
  const totalMs = times.flatMap((core) => Object.values(core)).reduce((sum, ms) => sum + ms, 0)
  return { atMs: performance.now(), idleMs, totalMs }
}

function areCoresIdle(): boolean {
  const now = readCores()
  if (now.atMs - sampledCores.atMs < IDLE_SAMPLE_MS) return false
  const share = (now.idleMs - sampledCores.idleMs) / (now.totalMs - sampledCores.totalMs)
  sampledCores = now
  return share >= IDLE_SHARE
}

/** Those named, by path or by pattern; without any, those of tap's configuration. */
function wantedFiles(): string[] {
  if (positionals.length === 0)
    return globSync(settings.include, { cwd: root, exclude: settings.exclude }).sort()
  const found = positionals.map((pattern) =>
    globSync(pattern, { cwd: root, exclude: ['**/node_modules/**', 'dist/**'] }).sort(),
  )
  const without = positionals.filter((_, i) => found[i]!.length === 0)
  if (without.length > 0) {
    console.error(`Expected test files, found none that match ${without.join(' ')}.`)
    process.exit(1)
  }
  return [...new Set(found.flat())]
}

/**
 * By what each took the last time, so that no long one is left over at the end; those that never ran come first, in the order in which
 * they were asked for.
 */
function longestFirst(files: readonly string[]): string[] {
  const lastMs = new Map(files.map((file) => [file, lastDurationMs(file)]))
  // Where both never ran the difference is no number, and they stay as they are.
  return [...files].sort((a, b) => lastMs.get(b)! - lastMs.get(a)! || 0)
}

function lastDurationMs(file: string): number {
  try {
    const [, ms] = readFileSync(resultOf(file), 'utf8').match(/^# time=([\d.]+)ms\n*$/m) ?? []
    return Number(ms ?? Infinity)
  } catch {
    return Infinity
  }
}

function resultOf(file: string): string {
  return join(results, `${file}.tap`)
}

/** A file ends itself after `timeoutS`. One that cannot, because it never gives way, is killed after twice that. */
function run(file: string): Promise<Outcome> {
  const beganMs = performance.now()
  const env = {
    ...process.env,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(root, 'node_modules/.cache/compile'),
    TAP: '1',
    TAP_TIMEOUT: String(timeoutS),
  }
  const child = spawn(process.execPath, [join(root, file)], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  const kill = setTimeout(() => child.kill('SIGKILL'), 2000 * timeoutS)
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text
  })
  return new Promise((done, fail) => {
    child.on('error', fail)
    child.on('close', (code, signal) => {
      clearTimeout(kill)
      running.delete(child)
      mkdirSync(dirname(resultOf(file)), { recursive: true })
      writeFileSync(resultOf(file), output)
      const durationMs = performance.now() - beganMs
      done({ file, output: output + errors, durationMs, ...judge(output, code, signal) })
    })
  })
}

/** Reads the figures that a file ends with: `# { total: 9, pass: 8, fail: 1 }`. */
function judge(output: string, code: number | null, signal: string | null) {
  const stats = output.match(/^# \{ total: .* \}$/gm)?.at(-1) ?? ''
  const count = (name: string) => Number(stats.match(new RegExp(`\\b${name}: (\\d+)`))?.[1] ?? 0)
  const isSkipped = /^1\.\.0 # skip/im.test(output)
  let problem: string | undefined
  if (signal !== null) problem = `it was ended by ${signal}`
  else if (code !== 0) problem = `it ended with status ${code}`
  else if (count('total') === 0 && !isSkipped) problem = 'it asserted nothing'
  const fail = Math.max(count('fail'), problem === undefined ? 0 : 1)
  return { total: Math.max(count('total'), fail), pass: count('pass'), skip: count('skip'), fail, problem }
}

function show({ file, output, fail, problem, skip, durationMs }: Outcome): void {
  for (const line of output.match(/^ *ok .* # skip.*$/gim) ?? []) {
    if (skip > 0) console.log(`skipped: ${file}: ${line.trim()}`)
  }
  if (fail === 0) return
  console.log(`\nnot ok: ${file}${problem === undefined ? '' : `: ${problem}`} (${seconds(durationMs)})`)
  console.log(failuresIn(output) || output.slice(-4000))
}

/** Every assertion that failed with what tap says of it, and otherwise what the file said last. */
function failuresIn(output: string): string {
  const isOpen = (line: string) => !/# todo/i.test(line)
  return (output.match(/^ *not ok .*$(?:\n +---$[\s\S]*?\n +\.\.\.$)?/gm) ?? []).filter(isOpen).join('\n')
}

/** The form of tap's own last lines, which CI counts. */
function report(): void {
  const sum = (name: 'total' | 'pass' | 'fail' | 'skip') =>
    outcomes.reduce((total, outcome) => total + outcome[name], 0)
  const slowest = [...outcomes].sort((a, b) => b.durationMs - a.durationMs).slice(0, 25)
  const together = outcomes.reduce((total, { durationMs }) => total + durationMs, 0)
  const parts = [`total: ${sum('total')}`, `pass: ${sum('pass')}`]
  if (sum('fail') > 0) parts.push(`fail: ${sum('fail')}`)
  if (sum('skip') > 0) parts.push(`skip: ${sum('skip')}`)
  const failed = outcomes.filter(({ fail }) => fail > 0).map(({ file }) => file)
  if (failed.length > 0) console.log(`\nfailed: ${failed.join(' ')}`)
  const cores = readCores()
  const idleShare = (cores.idleMs - firstCores.idleMs) / (cores.totalMs - firstCores.totalMs)
  console.log(
    `${files.length} files took ${seconds(together)} together, the cores were idle for ${(100 * idleShare).toFixed()} % of the run; the longest:`,
  )
  for (const { file, durationMs } of slowest) console.log(`  ${seconds(durationMs).padStart(8)} ${file}`)
  console.log(`# { ${parts.join(', ')} }\n# time=${(performance.now() - startedMs).toFixed(3)}ms`)
  process.exitCode = failed.length > 0 ? 1 : 0
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
