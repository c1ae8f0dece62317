import { visibleText } from '../../core/text/visibleText.ts'
import type { Stream, Styles } from './style.ts'
import { truncate } from './table.ts'

/** A line on the terminal that shows what is in progress. */
export interface Progress {
  update(text: string): void
  /** Ends the progress line. A text replaces the line, with a check mark. */
  done(text?: string): void
  /** Ends the progress line. A text replaces the line, with a cross. */
  fail(text?: string): void
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const FRAME_MS = 80
const clearLine = '\r\u001b[2K'

export const silentProgress: Progress = { update() {}, done() {}, fail() {} }

/** Shows a spinner on a terminal. The timer does not keep the process alive. */
export function startProgress(stream: Stream, styles: Styles, text: string): Progress {
  let shown = visibleText(text)
  let frame = 0
  let isOver = false
  const draw = () => {
    const line = truncate(shown, (stream.columns || 80) - 3)
    stream.write(`${clearLine}${styles.dim(frames[frame++ % frames.length]!)} ${line}`)
  }
  const timer = setInterval(draw, FRAME_MS)
  timer.unref()
  draw()

  const end = (mark: string, result: string | undefined) => {
    if (isOver) return
    isOver = true
    clearInterval(timer)
    stream.write(result === undefined ? clearLine : `${clearLine}${mark} ${visibleText(result)}\n`)
  }
  return {
    update(next) {
      if (isOver) return
      shown = visibleText(next)
      draw()
    },
    done: (result) => end(styles.green('✓'), result),
    fail: (result) => end(styles.red('✗'), result),
  }
}
