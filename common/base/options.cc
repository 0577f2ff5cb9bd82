#include "common/base/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"

namespace mgpu {
namespace {

using Values = std::vector<std::string>;

// --- values as text ------------------------------------------------------------------------------

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
// Smallest first, each a multiple of the one before.
constexpr std::array<Unit, 4> kUnits{{{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};

// Stricter than CLI11, which takes "0x10", " 1" and "010" (as eight).
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

// A whole number and "ms", "s", "m" or "h".
std::optional<Duration> read_duration(std::string_view text) {
  const auto number = take_number(text);
  if (!number || *number < 0) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (unit.name != text) continue;
    if (*number > std::numeric_limits<std::int64_t>::max() / unit.milliseconds) break;
    return Duration(*number * unit.milliseconds);
  }
  return std::nullopt;
}

// In the largest unit that says it exactly: "90s", "2m".
std::string duration_text(Duration duration) {
  const Unit* exact = &kUnits[0];
  for (const Unit& unit : kUnits) {
    if (duration.count() != 0 && duration.count() % unit.milliseconds == 0) exact = &unit;
  }
  return fmt::format("{}{}", duration.count() / exact->milliseconds, exact->name);
}

// "a, b or c"
std::string listed(const Values& choices) {
  const auto last = choices.end() - 1;
  const std::string all_but_last = fmt::format("{}", fmt::join(choices.begin(), last, ", "));
  return all_but_last + (all_but_last.empty() ? "" : " or ") + *last;
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

// "MGPU_EXTENDER" and "bind-concurrency" give "MGPU_EXTENDER_BIND_CONCURRENCY".
std::string environment_name(const std::string& prefix, const std::string& flag) {
  if (prefix.empty()) return "";
  std::string name = prefix + "_" + flag;
  std::replace(name.begin(), name.end(), '-', '_');
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

// --- help ----------------------------------------------------------------------------------------

// `text` in indented lines of at most 100 columns, broken at blanks; ends with a line end.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kColumns = 94;
  constexpr std::string_view kIndent = "      ";
  std::string out;
  while (text.size() > kColumns) {
    // Behind the last word that fits, else behind the first.
    std::size_t end = text.rfind(' ', kColumns);
    if (end == std::string_view::npos) end = text.find(' ');
    if (end == std::string_view::npos) break;
    out.append(kIndent).append(text.substr(0, end)).append("\n");
    text.remove_prefix(end + 1);
  }
  return out.append(kIndent).append(text).append("\n");
}

//   --bind-concurrency NUMBER  (1 to 1024; default 128; env MGPU_EXTENDER_BIND_CONCURRENCY)
//       binds sent to the API server at once
std::string flags_help(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* flag : app.get_options()) {
    if (flag->get_option_text().empty()) continue;  // --help and --version come last
    const std::string kind = flag->get_type_name();
    text += fmt::format("  {}{}{}  ({}{})\n", flag->get_name(), kind.empty() ? "" : " ", kind,
                        flag->get_option_text(),
                        flag->get_envname().empty() ? "" : "; env " + flag->get_envname());
    text += wrapped(flag->get_description());
  }
  return text;
}

std::string help_of(const CLI::App& app, const std::string& title) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  std::string text = fmt::format("{0}: {1}\n\nUsage: {0} {2}[FLAGS]\n\n", title,
                                 app.get_description(), commands.empty() ? "" : "COMMAND ");
  if (!commands.empty()) {
    text += "Commands:\n";
    for (const CLI::App* command : commands) {
      text += fmt::format("  {}\n{}", command->get_name(), wrapped(command->get_description()));
    }
    text += fmt::format("\n'{} COMMAND --help' shows a command's flags.\n\n", title);
  }
  text += "Flags:\n" + flags_help(app);
  if (app.get_parent() != nullptr) text += flags_help(*app.get_parent());
  return text +
         "  --help\n      print this and end\n  --version\n      print the version and end\n";
}

// In the reverse order that CLI11 wants. "--node=" becomes "--node" and "": CLI11 would take the
// next word for its value.
Values reversed_words(int argc, const char* const* argv) {
  Values words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (empty_value) word.pop_back();
    words.push_back(std::move(word));
    if (empty_value) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace

struct Options::State {
  std::string title;  // "mgpu-sim" or "mgpu-sim demo"
  std::string environment_prefix;
  std::unique_ptr<CLI::App> owned_app;  // of the program
  CLI::App* app = nullptr;              // owned_app, or a subcommand of the parent's
  std::vector<std::function<Result<void>()>> checks;
  std::vector<std::unique_ptr<Options>> commands;
  std::string command;

  CLI::Option* add(const std::string& name, const std::string& help, const std::string& about,
                   CLI::callback_t set);
  template <class T, class Read>
  CLI::Option* add_value(const std::string& name, const std::string& help, const std::string& about,
                         T& target, const std::string& expected, Read read);
  const State* chosen() const;
  ParsedOptions refused(const std::string& sentence) const;
  ParsedOptions read(Values words) const;
};

// `about` is what the help says of its values.
CLI::Option* Options::State::add(const std::string& name, const std::string& help,
                                 const std::string& about, CLI::callback_t set) {
  MGPU_CHECK(app->get_option_no_throw("--" + name) == nullptr, "a flag was added twice");
  return app->add_option("--" + name, std::move(set), help)
      ->option_text(about)
      ->envname(environment_name(environment_prefix, name))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

// `read` makes a value of its text, or none; `expected` says in errors what it must be.
template <class T, class Read>
CLI::Option* Options::State::add_value(const std::string& name, const std::string& help,
                                       const std::string& about, T& target,
                                       const std::string& expected, Read read) {
  const std::string variable = environment_name(environment_prefix, name);
  const auto set = [=, &target](const Values& values) {
    auto value = read(values.back());
    if (!value) {
      // CLI11 does not say where a value comes from.
      const char* const in_environment = variable.empty() ? nullptr : std::getenv(variable.c_str());
      const bool named = in_environment != nullptr && values.back() == in_environment;
      throw CLI::ValidationError(fmt::format("{} must be {}, found {}",
                                             named ? variable : "--" + name, expected,
                                             in_quotes(values.back())));
    }
    target = *std::move(value);
    return true;
  };
  return add(name, help, about, set);
}

// The command on the line; null without commands, or when none was named.
const Options::State* Options::State::chosen() const {
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [](const auto& each) { return each->state_->app->parsed(); });
  return found == commands.end() ? nullptr : (*found)->state_.get();
}

ParsedOptions Options::State::refused(const std::string& sentence) const {
  return {.run = false, .exit_code = 2, .print = title + ": " + sentence + "; see --help\n"};
}

ParsedOptions Options::State::read(Values words) const {
  try {
    app->parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    const State& shown = chosen() ? *chosen() : *this;
    return {.run = false, .exit_code = 0, .print = help_of(*shown.app, shown.title)};
  } catch (const CLI::CallForVersion&) {
    return {.run = false, .exit_code = 0, .print = version_text() + "\n"};
  } catch (const CLI::ValidationError& bad) {
    return refused(bad.what());
  } catch (const CLI::ExtrasError&) {
    const Values extras = app->remaining(true);
    const std::string first = extras.empty() ? "" : extras.front();
    return refused((first.starts_with('-') ? "unknown flag " : "unexpected argument ") +
                   in_quotes(first));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // "--port: 1 required NUMBER missing"
    const std::string text = mismatch.what();
    return refused(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::Error& failure) {
    return refused(in_quotes(failure.what()));
  }
  if (commands.empty() || chosen() != nullptr) return {.run = true, .exit_code = 0, .print = ""};
  Values names;
  for (const auto& each : commands) names.push_back(each->state_->app->get_name());
  return refused("a command is needed: " + listed(names));
}

Options::Options(std::string program, std::string description, std::string environment_prefix)
    : state_(std::make_unique<State>()) {
  state_->owned_app = std::make_unique<CLI::App>(std::move(description), program);
  state_->app = state_->owned_app.get();
  state_->title = std::move(program);
  state_->environment_prefix = std::move(environment_prefix);
  // At once, so that neither a bad value nor an unknown flag beside them is in the way.
  state_->app->set_help_flag();
  state_->app->add_flag_callback("--help", [] { throw CLI::CallForHelp(); })->trigger_on_parse();
  state_->app->add_flag_callback("--version", [] { throw CLI::CallForVersion(); })
      ->trigger_on_parse();
}

Options::Options(std::unique_ptr<State> state) : state_(std::move(state)) {}

Options::~Options() = default;

void Options::add_text(const std::string& name, const std::string& help, std::string& target) {
  const auto same = [](const std::string& text) { return std::optional(text); };
  state_->add_value(name, help, "default " + or_none(target), target, "", same)->type_name("TEXT");
}

void Options::add_choice(const std::string& name, const std::string& help, std::string& target,
                         const std::vector<std::string>& choices) {
  const auto read = [choices](const std::string& text) -> std::optional<std::string> {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) return std::nullopt;
    return text;
  };
  const std::string all = listed(choices);
  state_->add_value(name, help, fmt::format("{}; default {}", all, target), target, all, read)
      ->type_name("CHOICE");
}

void Options::add_number(const std::string& name, const std::string& help, std::int64_t& target,
                         std::int64_t least, std::int64_t most) {
  const auto read = [least, most](std::string_view text) {
    const auto number = take_number(text);
    const bool good = number && text.empty() && *number >= least && *number <= most;
    return good ? number : std::nullopt;
  };
  const std::string range = fmt::format("{} to {}", least, most);
  state_
      ->add_value(name, help, fmt::format("{}; default {}", range, target), target,
                  "a whole number from " + range, read)
      ->type_name("NUMBER");
}

void Options::add_duration(const std::string& name, const std::string& help, Duration& target,
                           Duration least, Duration most) {
  const auto read = [least, most](std::string_view text) {
    const auto duration = read_duration(text);
    return duration && *duration >= least && *duration <= most ? duration : std::nullopt;
  };
  const std::string range = fmt::format("{} to {}", duration_text(least), duration_text(most));
  state_
      ->add_value(name, help, fmt::format("{}; default {}", range, duration_text(target)), target,
                  fmt::format("a time from {} such as 500ms, 2s or 5m", range), read)
      ->type_name("TIME");
}

void Options::add_flag(const std::string& name, const std::string& help, bool& target) {
  const auto read = [](const std::string& text) {
    return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
  };
  state_->add_value(name, help, fmt::format("default {}", target), target, "true or false", read)
      ->type_name("")
      ->expected(0);
}

void Options::add_texts(const std::string& name, const std::string& help,
                        std::vector<std::string>& target) {
  const auto set = [&target](const Values& values) {
    target = values;
    return true;
  };
  const std::string defaults = or_none(fmt::format("{}", fmt::join(target, ",")));
  state_->add(name, help, "may be repeated; default " + defaults, set)
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Options::check(std::function<Result<void>()> check) {
  state_->checks.push_back(std::move(check));
}

Options& Options::add_command(const std::string& name, const std::string& description) {
  auto command = std::make_unique<State>();
  command->title = state_->title + " " + name;
  command->environment_prefix = state_->environment_prefix;
  command->app = state_->app->add_subcommand(name, description);
  // With a callback of its own a command is processed only where it was named.
  command->app->fallthrough()->parse_complete_callback([] {});
  state_->commands.push_back(std::unique_ptr<Options>(new Options(std::move(command))));
  return *state_->commands.back();
}

const std::string& Options::command() const {
  return state_->command;
}

ParsedOptions Options::parse(int argc, const char* const* argv) {
  ParsedOptions parsed = state_->read(reversed_words(argc, argv));
  if (!parsed.run) return parsed;
  auto checks = state_->checks;
  if (const State* const chosen = state_->chosen()) {
    state_->command = chosen->app->get_name();
    checks.insert(checks.begin(), chosen->checks.begin(), chosen->checks.end());
  }
  for (const auto& check : checks) {
    if (auto checked = check(); !checked) return state_->refused(checked.error().message);
  }
  return parsed;
}

std::string version_text() {
#ifdef __clang__
  constexpr std::string_view kCompiler = "clang";
#else
  constexpr std::string_view kCompiler = "gcc";
#endif
  return fmt::format("mgpu {} ({} {})", MGPU_VERSION, kCompiler, __VERSION__);
}

}  // namespace mgpu
