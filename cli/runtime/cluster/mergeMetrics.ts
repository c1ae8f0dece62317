/** The metrics of one process in Prometheus's text format. */
export interface ProcessMetrics {
  readonly process: string
  readonly text: string
}

/**
 * Puts the metrics of several processes together: each sample gets the label `process`, each metric its HELP and TYPE
 * once and its samples in one block, as the format wants it.
 */
export function mergeMetrics(all: readonly ProcessMetrics[]): string {
  const blocks = new Map<string, { head: string[]; samples: string[] }>()
  for (const { process, text } of all) {
    let block: { head: string[]; samples: string[] } | undefined
    for (const line of text.split('\n')) {
      if (line === '') continue
      if (!line.startsWith('#')) {
        block?.samples.push(labelled(line, process))
        continue
      }
      const name = line.split(' ', 3)[2]!
      block = blocks.get(name)
      if (block === undefined) blocks.set(name, (block = { head: [], samples: [] }))
      if (!block.head.includes(line)) block.head.push(line)
    }
  }
  return [...blocks.values()]
    .flatMap(({ head, samples }) => [...head, ...samples])
    .join('\n')
    .concat('\n')
}

function labelled(sample: string, process: string): string {
  const label = `process="${process}"`
  const brace = sample.indexOf('{')
  const space = sample.indexOf(' ')
  if (brace !== -1 && brace < space) return `${sample.slice(0, brace + 1)}${label},${sample.slice(brace + 1)}`
  return `${sample.slice(0, space)}{${label}}${sample.slice(space)}`
}
