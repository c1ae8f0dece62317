/**
 * The line from every process of an installation to the one that does its background work (`service.runsJobs`), for what
 * has to be decided once, on what all of them saw. Where one process does everything, a note is a function call.
 */
export interface JobLine {
  /**
   * Sends a note to whoever hears the topic, in the order of sending. A note is plain data and may be copied on its way;
   * gather small ones first. What is under way when a process dies is lost. Never throws.
   */
  post(topic: string, note: unknown): void
  /**
   * Hears the notes of all processes. In a process that does not run jobs, nothing ever comes.
   *
   * @returns a function that ends it
   */
  hear(topic: string, listener: (note: unknown) => void): () => void
  /**
   * Whether the notes come to this process now. Several may run jobs on one store; this is true in one of them at a time, and
   * in another one after that has gone.
   */
  readonly isHere: boolean
}
