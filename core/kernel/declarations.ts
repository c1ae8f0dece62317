import { nearMiss } from '../config/check/nearMiss.ts'
import {
  type AnyGatewayPlugin,
  afterResponsePhases,
  gatewayPhases,
  type RouteHooks,
} from '../plugin/gateway.ts'
import { paymentSlots } from '../plugin/slots.ts'
import { GenerationError } from './readyPlugin.ts'
import { kindOf } from './run.ts'

const phases: readonly string[] = [...gatewayPhases, ...afterResponsePhases]
const uses: readonly string[] = ['reads', 'mayRead', 'writes', 'mayWrite']
const slots: readonly string[] = paymentSlots

/**
 * Checks that no two plugins have the same name, because messages identify a plugin by its name. The name is also the prefix of the
 * plugin's own slots.
 *
 * @throws {GenerationError}
 */
export function assertNames(plugins: readonly AnyGatewayPlugin[]): void {
  const byName = new Map<string, AnyGatewayPlugin>()
  for (const plugin of plugins) {
    const known = byName.get(plugin.name) ?? plugin
    if (known !== plugin)
      throw new GenerationError(`Two plugins are called ${plugin.name}. Give one of them another name.`)
    byName.set(plugin.name, plugin)
  }
}

/**
 * Checks a plugin's declarations. A misspelled phase or slot is refused, because its rule would never be enforced.
 *
 * @throws {GenerationError}
 */
export function assertDeclarations({ name, slots: declared, ownSlots }: AnyGatewayPlugin): void {
  const refuse = (problem: string) => {
    throw new GenerationError(`Plugin ${name} ${problem}`)
  }
  for (const [own, value] of Object.entries(ownSlots ?? {})) {
    if (!own.startsWith(`${name}/`) || own.length === name.length + 1)
      refuse(`declares ${own} as its own slot; expected a name that begins with ${name}/.`)
    // All calls would share this object, so one call could read what another call has written.
    if ((typeof value === 'object' || typeof value === 'function') && value !== null)
      refuse(
        `sets the initial value of ${own} to ${Array.isArray(value) ? 'a list' : `a value of type ${typeof value}`}, which all calls would share. Start with null, and set one in each call.`,
      )
  }
  for (const [phase, use] of Object.entries(declared ?? {}) as [string, unknown][]) {
    if (!phases.includes(phase)) refuse(`declares slots of phase ${phase}, ${noPhase(phase)}`)
    if (use === undefined || use === null) continue
    if (typeof use !== 'object') refuse(`declares slots of phase ${phase} as ${kindOf(use)}, not an object.`)
    for (const [how, names] of Object.entries(use) as [string, unknown][]) {
      if (!uses.includes(how))
        refuse(`says ${how} of slots in phase ${phase}; expected ${uses.join(', ')}.${meant(how, uses)}`)
      if (names === undefined) continue
      if (!Array.isArray(names))
        refuse(`declares what it ${how} in phase ${phase} by ${kindOf(names)}, not a list.`)
      for (const slot of names as unknown[]) {
        if (typeof slot !== 'string' || !(slots.includes(slot) || slot.includes('/')))
          refuse(
            `names slot ${String(slot)}, which does not exist: expected ${slots.join(', ')}, or <plugin>/<name>.${meant(String(slot), slots)}`,
          )
        if (!how.toLowerCase().endsWith('write') && how !== 'writes') continue
        if (!(slot as string).includes('/') || (ownSlots != null && Object.hasOwn(ownSlots, slot as string)))
          continue
        refuse(
          `writes ${String(slot)}, which belongs to another plugin: a plugin writes only the slots of its own ownSlots.`,
        )
      }
    }
  }
}

/**
 * Checks the value that `route` returned.
 *
 * @returns undefined if the plugin has no hooks for the link
 * @throws {GenerationError} for invalid hooks
 */
export function hooksOf(plugin: string, answered: unknown): RouteHooks | undefined {
  if (answered === undefined || answered === null) return undefined
  if (answered instanceof Promise) {
    answered.catch(() => undefined)
    throw new GenerationError(
      `Plugin ${plugin}: route() returned a promise. Expected the hooks synchronously; setup() may be asynchronous.`,
    )
  }
  if (typeof answered !== 'object')
    throw new GenerationError(
      `Plugin ${plugin}: expected route() to return hooks or undefined, got ${kindOf(answered)}.`,
    )
  for (const [phase, hook] of Object.entries(answered) as [string, unknown][]) {
    if (phase === 'offer') continue
    if (phase !== 'dispose' && !phases.includes(phase))
      throw new GenerationError(`Plugin ${plugin} has a hook for ${phase}, ${noPhase(phase)}`)
    if (hook !== undefined && hook !== null && typeof hook !== 'function')
      throw new GenerationError(
        `Plugin ${plugin}: expected its hook for ${phase} to be a function, got ${kindOf(hook)}.`,
      )
  }
  return answered as RouteHooks
}

const noPhase = (phase: string): string =>
  `which is not a phase of the gateway: ${phases.join(', ')}.${meant(phase, phases)}`

function meant(word: string, candidates: readonly string[]): string {
  const found = nearMiss(word, candidates)
  return found === undefined ? '' : ` Did you mean ${found}?`
}
