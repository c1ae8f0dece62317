// Runs calls through programs of the kernel that differ only in how many plugins stand in them, and prints what one more
// costs in nanoseconds of CPU time. The plugins are compiled like any other.
import { compile, Shapes } from '../../core/kernel/compile.ts'
import type { Pipeline } from '../../core/kernel/pipeline.ts'
import { prototypeLinks } from '../../core/kernel/prototypeLinks.ts'
import type { ReadyPlugin } from '../../core/kernel/readyPlugin.ts'
import { run } from '../../core/kernel/run.ts'
import { type Exchange, gatewayPlugin, type Hook, handled } from '../../core/plugin/gateway.ts'

const { calls } = JSON.parse(process.argv[2]!) as { calls: number }
/** So many plugins more or less. */
const many = 10
const exchange = { status: 0 } as Exchange

/** Plugins of which each is another function, as they are in life. */
function pluginsOf(count: number, makeHook: (i: number) => Hook): ReadyPlugin[] {
  return Array.from({ length: count }, (_, i) => {
    const plugin = gatewayPlugin({
      name: `plugin-${i}`,
      api: 1,
      options: { type: 'object', additionalProperties: false, properties: {} },
      needs: [],
      setup: () => ({ route: () => ({ guard: makeHook(i) }) }),
    })
    const instance = { route: () => ({ guard: makeHook(i) }) }
    return { plugin, instance, applies: () => true }
  })
}

const makers: Hook[] = []
for (let i = 0; i <= many; i++) {
  // A function of its own source each, so that no call site is simpler than with real plugins.
  makers.push(new Function('x', `if (x.status === ${1_000 + i}) throw new Error('never')`) as Hook)
}
const late: Hook = async () => undefined
const respond: Hook = () => handled
function pipelineOf(hooks: readonly Hook[]): Pipeline {
  const plugins = pluginsOf(hooks.length, (i) => hooks[i]!)
  return compile(prototypeLinks[0]!, plugins, new Shapes(plugins, () => {}))
}

const few = pipelineOf([makers[0]!, respond])
const more = pipelineOf([...makers, respond])
const fewLate = pipelineOf([makers[0]!, late, respond])
const moreLate = pipelineOf([makers[0]!, ...new Array<Hook>(many + 1).fill(late), respond])

function cost(program: Pipeline): number {
  const { hooks } = program.shape
  exchange.pipeline = program
  const before = process.cpuUsage()
  for (let i = 0; i < calls; i++) run(hooks, exchange)
  return nsSince(before)
}

async function lateCost(program: Pipeline): Promise<number> {
  const { hooks } = program.shape
  exchange.pipeline = program
  const before = process.cpuUsage()
  for (let i = 0; i < calls / many; i++) await run(hooks, exchange)
  return nsSince(before) * many
}

function nsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return ((user + system) * 1_000) / calls
}

// The first turn is for the compiler.
let sync = 0
let async = 0
for (let turn = 0; turn < 3; turn++) {
  sync = (cost(more) - cost(few)) / many
  async = ((await lateCost(moreLate)) - (await lateCost(fewLate))) / many
}
console.log(JSON.stringify({ sync, async }))
