import type { Generation } from '../../core/kernel/generation.ts'
import { options } from '../../plugins/replay-guard/options.ts'

const { maximum, default: usual } = options.properties.replayWindowMs

/**
 * The longest time after its claim, in ms, in which some link's repeated call gets an answer that was delivered already: so long
 * these answers have to be kept.
 *
 * @param generation the configuration that runs; while there is none yet, the longest that a configuration may say holds
 */
export function longestReplayMs(generation: Pick<Generation, 'plugins'> | undefined): number {
  if (generation === undefined) return maximum
  const windows = generation.plugins.flatMap(({ plugin, options: given }) => {
    const ms = (given as { readonly replayWindowMs?: unknown } | undefined)?.replayWindowMs
    return plugin.name === 'replay-guard' && typeof ms === 'number' ? [ms] : []
  })
  return windows.length === 0 ? usual : Math.max(...windows)
}
