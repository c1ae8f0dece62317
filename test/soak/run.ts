// Two gateways under load, and what befalls them, by hand: node test/soak/run.ts --help
import { readSoakOptions, type SoakOptions } from './options.ts'
import { type SoakReport, soak } from './soak.ts'
import { strikeNames } from './strikes.ts'

const teardowns: (() => unknown)[] = []
const t = {
  teardown: (end: () => unknown) => void teardowns.push(end),
  pass: () => true,
  fail(message?: unknown): boolean {
    throw new Error(String(message))
  },
}
let tearingDown: Promise<void> | undefined
const say = (text: string) => console.error(text)

async function main(options: SoakOptions): Promise<void> {
  try {
    const report = await soak(t as never, options, say)
    console.log(summaryOf(options, report))
    if (report.misses.length + report.late.length > 0) process.exitCode = 1
  } finally {
    await tearDown()
  }
}

/** Ends what was started, once for all who ask: a database and its chain would outlive this process. */
function tearDown(): Promise<void> {
  tearingDown ??= (async () => {
    for (let end = teardowns.pop(); end !== undefined; end = teardowns.pop()) await end()
  })()
  return tearingDown
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    say(`${signal}: ending what was started`)
    void tearDown().finally(() => process.exit(130))
  })

function summaryOf(options: SoakOptions, report: SoakReport): string {
  const { struck, misses, late, responses, atStruck, free, ...counts } = report
  const lines = [JSON.stringify({ ...options, ...counts, atStruck, free, responses })]
  for (const name of strikeNames) {
    const those = struck.filter((one) => one.name === name)
    if (those.length === 0) continue
    const longest = (list: readonly number[]) => Math.round(Math.max(0, ...list))
    lines.push(
      `${name}: ${those.length}; served again at most ${longest(those.flatMap((one) => one.servedAfterMs))} ms after the return, ` +
        `ready at most ${longest(those.flatMap((one) => one.readyAfterMs))} ms after`,
    )
  }
  lines.push(...misses.map((miss) => `MISS: ${miss}`), ...late.map((text) => `LATE: ${text}`))
  lines.push(`${misses.length} misses, ${late.length} late`)
  return lines.join('\n')
}

try {
  const options = readSoakOptions(process.argv.slice(2))
  if ('help' in options) console.log(options.help)
  else await main(options)
} catch (error) {
  console.error((error as Error).stack)
  process.exitCode = 2
}
// Leftovers of a failed run do not keep the run waiting.
process.exit()
